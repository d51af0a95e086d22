"""Trials in words: what belongs together, and what tells one from another.

Seeds are left out, of members as of data, and so is the first model that the heads of a
repetition share: trials with the same words are repetitions of each other.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import partial
from typing import Any

from tepui.core.members import lists_of
from tepui.core.spec import arguments_of
from tepui.studies.specifications import Trial, samples_in

TITLE = "title"
_SEEDS = ("seed", "seeds")
_PARTS = ("model", "optimizer", "loss", "prune")


def describe(trial: Trial, hidden: Collection[str] = ()) -> dict[str, str]:
    """Return all that a trial is, but its seeds.

    Example:
        >>> from tepui.data import Digits
        >>> from tepui.studies.specifications import Samples
        >>> from tepui.methods import SAM
        >>> from tepui.models import ConvNet
        >>> from tepui.training import TrainingSpec
        >>> how = TrainingSpec(method=SAM(rho=0.2), epochs=2)
        >>> trial = Trial(Samples(Digits), ConvNet, how, seeds=(0, 1))
        >>> describe(trial)["title"], describe(trial, ["rho"])["title"]
        ('Digits ConvNet SAM(rho=0.2)', 'Digits ConvNet SAM()')
    """
    samples = next(samples_in(trial.data), None)
    data = type(trial.data) if samples is None else samples.dataset
    method = as_written(trial.training.method, {*hidden, *_SEEDS})
    words = {TITLE: f"{_name(data)} {_name(trial.model)} {method}"}
    words["members"] = str(len(trial.seeds))
    for name, value in {**_fields(trial), **_fields(trial.training)}.items():
        if name in _PARTS:
            words[name] = "None" if value is None else _name(value)
            for argument, given in (_arguments(value) or {}).items():
                if argument not in hidden and (name, argument) != ("model", "start"):
                    words[f"{name}.{argument}"] = as_written(given)
        elif name not in ("seeds", "training", "method"):
            words[name] = as_written(value)
    return words


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def labels(described: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a short name for each of some different trials.

    Example:
        >>> labels([{"title": "a", "members": "2"}, {"title": "a", "members": "3"}])
        ['a, members=2', 'a, members=3']
    """
    alike: dict[str, list[Mapping[str, str]]] = {}
    for words in described:
        alike.setdefault(words[TITLE], []).append(words)
    return [
        ", ".join([words[TITLE], *_told(words, alike[words[TITLE]])])
        for words in described
    ]


def _told(words: Mapping[str, str], others: Sequence[Mapping[str, str]]) -> list[str]:
    """Return what is not the same in all others."""
    return [
        f"{name.rpartition('.')[2]}={text}"
        for name, text in words.items()
        if any(other.get(name) != text for other in others)
    ]


def as_written(value: Any, hidden: Collection[str] = _SEEDS) -> str:
    """Return a value as it is written, without fields that have their defaults."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(as_written, value))}]"
    given = _arguments(value)
    if given is None:
        return _name(value) if callable(value) else repr(value)
    usual = _defaults(value)
    # The radius of a method counts, that of its base does not.
    of_base = {*_SEEDS, "rho"} if "rho" in given else _SEEDS
    shown = ", ".join(
        f"{name}={as_written(argument, of_base if name == 'base' else _SEEDS)}"
        for name, argument in given.items()
        if name not in hidden and (name not in usual or argument != usual[name])
    )
    return f"{_name(value)}({shown})"


def _arguments(value: Any) -> dict[str, Any] | None:
    """Return what a dataclass or a ``partial`` was made with; None for other values."""
    given = arguments_of(value)
    if given is None or isinstance(value, partial):
        return given
    dealt = {name: sorted({*values}) for name, values in lists_of(value).items()}
    return given | dealt


def _defaults(value: Any) -> dict[str, Any]:
    if isinstance(value, partial):
        return {}
    return {
        field.name: field.default
        if field.default_factory is MISSING
        else field.default_factory()
        for field in fields(value)
    }


def _name(value: Any) -> str:
    inner = value.func if isinstance(value, partial) else value
    return str(getattr(inner, "__name__", type(inner).__name__))
