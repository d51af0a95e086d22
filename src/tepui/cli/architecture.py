"""Models named on the command line, fitted to the data.

What a model's class takes and the user did not write follows from the data: the number
of classes and the channels and size of the images. What was written stays.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.task import CLASSIFICATION, UNKNOWN, Task
from tepui.data.loading import targets_of
from tepui.data.prepared_like import image_shape
from tepui.models import MLP, ConvNet

Factory = Callable[..., nn.Module]


def member_factories(
    models: Sequence[Factory] | None,
    data: Dataset[Any] | None,
    task: Task | None = None,
) -> Factory | list[Factory] | None:
    """Return what ``--model`` names: one for all members, or one for each.

    Example:
        >>> import tepui
        >>> from tepui.models import MLP, ConvNet
        >>> data = tepui.data.Digits()
        >>> first, second = member_factories([ConvNet, MLP], data)
        >>> first().config["num_classes"], second().config["in_features"]
        (10, 64)
    """
    chosen = models or ()
    factories = [one if data is None else fitted(one, data, task) for one in chosen]
    return factories[0] if len(factories) == 1 else factories or None


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


def _default_model(facts: Mapping[str, int]) -> Factory:
    """Return a small model for images, or for rows of numbers."""
    if "in_channels" in facts:
        return ConvNet
    rule = "be given for samples that are neither images nor rows of numbers, such as "
    require("in_features" in facts, "--model", f"{rule}Albert for text", None)
    return MLP


def has_masks(data: Dataset[Any]) -> bool:
    """Return whether the targets of a data set are one for each pixel."""
    targets = targets_of(data)
    return targets is not None and targets.ndim > 2


def fitted_to(facts: Mapping[str, int], model: Callable[..., nn.Module]) -> Factory:
    """Return a model whose arguments that nobody wrote follow from some facts."""
    taken = inspect.signature(model).parameters
    written = model.keywords if isinstance(model, partial) else {}
    free = {n: value for n, value in facts.items() if n in taken and n not in written}
    return partial(model, **free)


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
