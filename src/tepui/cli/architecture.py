"""Models named on the command line, fitted to the data.

What a model's class takes and the user did not write follows from the data: the number
of classes and the channels and size of the images. What was written stays.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.cli.importing import imported
from tepui.cli.known import known_classes, known_spelling
from tepui.core.checks import one_of, require
from tepui.core.task import CLASSIFICATION, UNKNOWN, Task
from tepui.data.loading import targets_of
from tepui.data.prepared_like import image_shape
from tepui.models import MLP, ConvNet

Factory = Callable[[], nn.Module]


@dataclass(frozen=True)
class Architecture:
    """A model's class with the options that were written."""

    factory: Callable[..., nn.Module]
    free: frozenset[str] = frozenset()  # arguments that it takes and nobody wrote

    def __call__(self) -> nn.Module:
        """Return the model with the defaults of its class."""
        return self.factory()


def member_factories(
    model: Factory | None,
    models: Sequence[str] | None,
    data: Dataset[Any] | None,
    task: Task | None = None,
) -> Factory | list[Factory] | None:
    """Return what ``--model`` or ``--models`` name: one for all members, or for each.

    Example:
        >>> import tepui
        >>> data = tepui.data.Digits()
        >>> first, second = member_factories(None, ["ConvNet", "mlp"], data)
        >>> first().config["num_classes"], second().config["in_features"]
        (10, 64)
    """
    require(model is None or not models, "--models", "not go with --model", models)
    chosen = [model] if models is None and model is not None else []
    chosen += [named_model(name) for name in models or ()]
    factories = [one if data is None else fitted(one, data, task) for one in chosen]
    return factories[0] if len(factories) == 1 else factories or None


def named_model(name: str) -> Architecture:
    """Return the model that ``--models`` names: one of tepui's, or any by its path."""
    kinds = {kind.__name__: kind for kind in known_classes()["--model"]}
    if "." not in name:
        name = known_spelling(name, kinds)
        one_of("--models", name, kinds)
    factory = kinds[name] if name in kinds else imported("--models", name, "models")
    return of_factory("--models", factory, name)


def of_factory(option: str, factory: Any, name: str) -> Architecture:
    """Return any callable as a model none of whose arguments were written."""
    rule = "name what returns a new model, such as a class or a function"
    makes = callable(factory) and not isinstance(factory, nn.Module)
    require(makes, option, rule, name)
    return Architecture(factory, frozenset(inspect.signature(factory).parameters))


def fitted(
    model: Factory | None, data: Dataset[Any], task: Task | None = None
) -> Factory:
    """Return a model for a data set and what its outputs are to mean.

    Example:
        >>> import torch, tepui
        >>> images = torch.zeros(4, 3, 8, 8)
        >>> data = tepui.data.Arrays(images, torch.arange(4))
        >>> fitted(None, data)().config["in_channels"]
        3
    """
    facts = facts_of(data, CLASSIFICATION if task is None else task)
    if model is None:
        rule = (
            "be given for masks, such as mypackage.make_net, whose outputs are "
            "(samples, classes, height, width)"
        )
        require(not has_masks(data), "--model", rule, None)
        model = _default_model(facts)
    return fitted_to(facts, model)


def _default_model(facts: Mapping[str, int]) -> Architecture:
    """Return a small model for images, or for rows of numbers."""
    if "in_channels" in facts:
        return Architecture(ConvNet, frozenset({"num_classes", "in_channels"}))
    rule = "be given for samples that are neither images nor rows of numbers, such as "
    require("in_features" in facts, "--model", f"{rule}Albert for text", None)
    return Architecture(MLP, frozenset({"num_classes", "in_features"}))


def has_masks(data: Dataset[Any]) -> bool:
    """Return whether the targets of a data set are one for each pixel."""
    targets = targets_of(data)
    return targets is not None and targets.ndim > 2


def fitted_to(facts: Mapping[str, int], model: Factory) -> Factory:
    """Return a model whose arguments that nobody wrote follow from some facts."""
    if not isinstance(model, Architecture):
        return model
    values = {name: facts[name] for name in model.free & facts.keys()}
    return partial(model.factory, **values)


def facts_of(data: Dataset[Any], task: Task = CLASSIFICATION) -> dict[str, int]:
    """Return the arguments of models that follow from the data."""
    facts: dict[str, int] = {}
    if (outputs := _outputs(data, task)) is not None:
        facts["num_classes"] = outputs
    if (shape := image_shape(data)) is not None:
        channels, height, width = shape
        facts |= {"in_features": prod(shape), "in_channels": channels}
        if height == width:
            facts["image_size"] = width
    elif isinstance(first := data[0][0], Tensor):
        facts["in_features"] = prod(first.shape)
    return facts


def _outputs(data: Dataset[Any], task: Task) -> int | None:
    """Return how many outputs a model has; None if the data do not say."""
    if task == CLASSIFICATION:
        return _classes(data)
    targets = targets_of(data)
    if targets is None or task == UNKNOWN:
        return None
    numbers = targets.shape[1] if targets.ndim > 1 else 1
    return numbers * {"gaussian": 2}.get(task.name, len(task.levels) or 1)


def _classes(data: Dataset[Any]) -> int | None:
    """Return how many classes there are; None if the data do not say."""
    if names := getattr(data, "classes", ()):
        return len(names)
    targets = getattr(data, "targets", None)
    if not isinstance(targets, Tensor) or targets.is_floating_point():
        return None
    return int(targets.max()) + 1 or None  # data without labels do not say
