"""Overriding the hyperparameters of a trial by name.

A name is a field of the trial's method, optimizer or loss, ``sparsity``, an argument
of its model such as ``width``, or ``members``, ``epochs`` or ``batch_size``; where two
have the same name, the first in this list is meant. A value has the type that
its field or argument declares. What data decide, such as the number of classes, cannot
be varied.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial
from math import isfinite
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_type_hints

import torch

from tepui.core.checks import require
from tepui.core.members import for_member, lists_of
from tepui.methods import CoupledMethod, ExchangingMethod
from tepui.modules.pruning import Prune
from tepui.studies.specifications import Trial
from tepui.training import TrainingSpec

Values = Mapping[str, Any]
_PLAIN = (bool, int, float, str, NoneType)
# Arguments of models that data or the repetition decide.
_GIVEN = (
    "num_classes",
    "in_channels",
    "in_features",
    "image_size",
    "patch_size",
    "vocabulary",
    "length",
    "start",
)


class Place(NamedTuple):
    """Where a hyperparameter is."""

    # part of the trial that holds it: "model", "members", "training", or one of the
    # fields of its training
    owner: str
    kind: str  # what that is, in errors
    hint: Any


def hyperparameters(trial: Trial) -> dict[str, Place]:
    """Return what can be varied.

    Args:
        trial: What is trained.

    Returns:
        Where each hyperparameter is, by name.

    Example:
        >>> from tepui.data import Digits
        >>> from tepui.studies.specifications import Samples
        >>> from tepui.methods import SAM
        >>> from tepui.training import TrainingSpec
        >>> from tepui.models import ConvNet
        >>> how = TrainingSpec(method=SAM(), epochs=2)
        >>> trial = Trial(Samples(Digits), ConvNet, how, seeds=(0, 1))
        >>> known = hyperparameters(trial)
        >>> [known[name].owner for name in ("rho", "lr", "label_smoothing", "width")]
        ['method', 'optimizer', 'loss', 'model']
    """
    places: dict[str, Place] = {}
    for name, place in _places(trial):
        types, words = _accepted(place.hint)
        if words or types - {NoneType}:
            places.setdefault(name, place)
    return places


def override(trial: Trial, values: Values) -> Trial:
    """Return a trial with other hyperparameters, if its parts allow them."""
    places = hyperparameters(trial)
    given: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        place = places[name]
        given.setdefault(place.owner, {})[name] = _fitting(place, name, value)
    if "members" in given:
        members, first = given.pop("members")["members"], trial.seeds[0]
        require(members > 0, "members", "be positive", members)
        trial = replace(trial, seeds=tuple(range(first, first + members)))
    if "model" in given:
        trial = replace(trial, model=partial(trial.model, **given.pop("model")))
        with torch.device("meta"):
            trial.model()  # refuses what the model refuses
    changes = given.pop("training", {})
    for owner, fields_of_owner in given.items():
        before = getattr(trial.training, owner)
        part = replace(Prune() if before is None else before, **fields_of_owner)
        changes[owner] = part
    if "prune" in changes and changes["prune"].sparsity == 0:
        changes["prune"] = None  # what is dense has one description
    changed = trial.trained_with(**changes)
    _check(changed)
    return changed


def _places(trial: Trial) -> Iterator[tuple[str, Place]]:
    for owner, part in parts_of(trial).items():
        if owner != "prune":
            kind = type(part)
            hints = get_type_hints(kind)
            for field in fields(part):
                yield field.name, Place(owner, kind.__name__, hints[field.name])
    yield "sparsity", Place("prune", "Prune", get_type_hints(Prune)["sparsity"])
    made_by = _made_by(trial.model)
    hints = get_type_hints(made_by.__init__ if isinstance(made_by, type) else made_by)  # type: ignore[misc]
    for name in inspect.signature(made_by).parameters:
        if name in hints and name not in _GIVEN:
            yield name, Place("model", made_by.__name__, hints[name])
    if not any(map(lists_of, parts_of(trial).values())):
        yield "members", Place("members", "Trial", int)
    hints = get_type_hints(TrainingSpec)
    for name in ("epochs", "batch_size"):
        yield name, Place("training", "TrainingSpec", hints[name])


def parts_of(trial: Trial) -> dict[str, Any]:
    """Return the parts of a trial's training that have hyperparameters, by field."""
    names = ("method", "optimizer", "loss", "prune")
    parts = {name: getattr(trial.training, name) for name in names}
    return {name: part for name, part in parts.items() if is_dataclass(part)}


def _made_by(model: Callable[..., Any]) -> Any:
    return model.func if isinstance(model, partial) else model


def _check(trial: Trial) -> None:
    members = len(trial.seeds)
    for part in parts_of(trial).values():
        for_member(part, 0, members)
    method = trial.training.method
    if isinstance(method, ExchangingMethod):
        method.exchanges_before(0, trial.training.epochs)
    if isinstance(method, CoupledMethod):
        method.check_members(members)


def _fitting(place: Place, name: str, value: Any) -> Any:
    """Return a value as its field holds it; 1 may stand for 1.0."""
    types, words = _accepted(place.hint)
    if type(value) is int and int not in types and float in types:
        value = float(value)
    accepted = [*words, *(kind.__name__ for kind in types)]
    suits = type(value) in types or value in words
    suits &= not isinstance(value, float) or isfinite(value)
    rule = f"be {' or '.join(accepted)} for {place.kind}"
    require(suits, f"grid {name}", rule, value)
    return value


def _accepted(hint: Any) -> tuple[set[type], list[Any]]:
    """Return the plain types and the words that an annotation admits."""
    if hint in _PLAIN:
        return {hint}, []
    if getattr(hint, "__origin__", None) is Literal:
        return set(), list(get_args(hint))
    if isinstance(hint, type) or not get_args(hint) or _is_container(hint):
        return set(), []
    parts = [_accepted(part) for part in get_args(hint)]
    types = set().union(*(types for types, _ in parts))
    return types, [word for _, words in parts for word in words]


def _is_container(hint: Any) -> bool:
    origin = getattr(hint, "__origin__", None)
    return origin is not None and isinstance(origin, type)
