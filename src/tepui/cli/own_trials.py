"""Trials of the user's own data, model and method, for ``tepui sweep``."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from functools import partial
from inspect import isclass
from typing import Any

from torch import nn

from tepui.cli.architecture import Architecture, fitted
from tepui.cli.datasets import Data, part
from tepui.core.checks import require
from tepui.losses import task_of
from tepui.methods import Method
from tepui.studies.specifications import Samples, Trial, contents_of, seeds
from tepui.training import TrainingSpec


def own_trials(
    data: Data,
    model: Callable[[], nn.Module] | None,
    members: int,
    ensembles: int,
    training: Mapping[str, Any],
) -> list[Trial]:
    """Return one trial per repetition, which differ in their seeds."""
    method: Method = training["method"]
    rule = "name a method that needs no unlabeled data"
    require(not method.needs_unlabeled, "--method", rule, type(method).__name__)
    train = part(data, train=True)
    samples = Samples(constructor(data), contents=contents_of(train))
    if isinstance(model, Architecture):
        model = Architecture(constructor(model.factory), model.free)
    factory = fitted(model, train, task_of(training["loss"]))
    spec = TrainingSpec(**training)
    return [
        Trial(samples, factory, spec, seeds(repetition, members))
        for repetition in range(ensembles)
    ]


def constructor(made_by: Callable[..., Any]) -> Callable[..., Any]:
    """Return the class, with its arguments, that a parser's function would call.

    Trials are described by it, and other processes can import it.
    """
    if not isinstance(made_by, partial):
        return made_by
    kinds = [argument for argument in made_by.args if isclass(argument)]
    return partial(kinds[-1], **made_by.keywords) if kinds else made_by


def written_settings(
    settings: Mapping[str, Any], specification: type
) -> dict[str, Any]:
    """Return the fields of a specification among settings."""
    names = {field.name for field in fields(specification)}
    return {name: value for name, value in settings.items() if name in names}


def check_unused(settings: Mapping[str, Any], *specifications: type) -> None:
    """Raise if a setting is given that a recipe decides."""
    for specification in specifications:
        for field in fields(specification):
            value = settings.get(field.name, _default(field))
            rule = "be left out with a recipe, which decides it"
            option = f"--{field.name}".replace("_", "-")
            require(value in (None, _default(field)), option, rule, value)


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return None if field.default is MISSING else field.default
