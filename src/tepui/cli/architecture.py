"""Models named on the command line, fitted to the data.

What a model's class takes and the user did not write follows from the data: the number
of classes and the channels and size of the images. What was written stays.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.task import CLASSIFICATION, UNKNOWN, Task
from tepui.data.loading import targets_of
from tepui.data.prepared_like import image_shape
from tepui.ensembles.ensemble import task_in
from tepui.models import ConvNet

Factory = Callable[[], nn.Module]


@dataclass(frozen=True)
class Architecture:
    """A model's class with the options that were written."""

    factory: Callable[..., nn.Module]
    free: frozenset[str] = frozenset()  # arguments that it takes and nobody wrote

    def __call__(self) -> nn.Module:
        """Return the model with the defaults of its class."""
        return self.factory()


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
    facts = _facts_of(data, CLASSIFICATION if task is None else task)
    if model is None:
        if "in_channels" not in facts:
            raise ValueError(
                "--model must be given for samples that are no images, such as MLP "
                "for vectors or Albert for text, got None"
            )
        model = Architecture(ConvNet, frozenset({"num_classes", "in_channels"}))
    if not isinstance(model, Architecture):
        return model
    values = {name: facts[name] for name in model.free & facts.keys()}
    return partial(model.factory, **values)


def rebuilt(model: Factory | None, data: Dataset[Any], run: Path) -> Factory | None:
    """Return the model that a run was trained with, as far as a user named it."""
    return None if model is None else fitted(model, data, task_in(run))


def _facts_of(data: Dataset[Any], task: Task) -> dict[str, int]:
    """Return the arguments of models that follow from the data."""
    facts: dict[str, int] = {}
    if (outputs := _outputs(data, task)) is not None:
        facts["num_classes"] = outputs
    first = data[0][0]
    if isinstance(first, Tensor):
        facts["in_features"] = prod(first.shape)
    if (shape := image_shape(data)) is not None:
        channels, height, width = shape
        facts["in_channels"] = channels
        if height == width:
            facts["image_size"] = width
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
