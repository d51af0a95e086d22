"""Data of the right form without content, to price a plan before data are fetched."""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.data import (
    CIFAR10,
    CIFAR100,
    SVHN,
    Arrays,
    FashionMNIST,
    ImageNet,
    ImageNetA,
    ImageNetC,
    ImageNetR,
    TinyImageNet,
)
from tepui.data.arrays import map_inputs
from tepui.studies.specifications import DataSource, Form, Samples
from tepui.studies.sweep import HoldOut

FORMS: dict[object, Form] = {
    CIFAR10: Form((3, 32, 32), 50_000, 10_000),
    CIFAR100: Form((3, 32, 32), 50_000, 10_000),
    FashionMNIST: Form((1, 28, 28), 60_000, 10_000),
    SVHN: Form((3, 32, 32), 73_257, 26_032),
    TinyImageNet: Form((3, 64, 64), 100_000, 10_000),
    ImageNet: Form((3, 224, 224), 1_281_167, 50_000),
    ImageNetA: Form((3, 224, 224), 0, 7_500),
    ImageNetR: Form((3, 224, 224), 0, 30_000),
    ImageNetC: Form((3, 224, 224), 0, 50_000),  # each of its copies
}


def blank(source: DataSource) -> Arrays | None:
    """Return as many black images as a source has; None where nobody knows them.

    They take no memory.

    Example:
        >>> blank(Samples(CIFAR10, held_out=0.1)).inputs.shape
        torch.Size([45000, 3, 32, 32])
    """
    known = _known(source)
    if known is None:
        return None
    return blank_arrays(*known)


def blank_arrays(
    count: int, shape: tuple[int, ...], dtype: torch.dtype = torch.uint8
) -> Arrays:
    """Return so many samples of a shape, which take no memory."""
    inputs = torch.zeros((), dtype=dtype).expand(count, *shape)
    return Arrays(inputs, torch.zeros((), dtype=torch.long).expand(count))


def form_of(dataset: Dataset[Any]) -> Dataset[Any]:
    """Return as many samples, all like the first; they take its memory alone.

    Data that are not held in tensors are returned as they are.

    Example:
        >>> found = form_of(Arrays(torch.tensor([[5.0], [6.0], [7.0]]), [0, 1, 2]))
        >>> found.inputs.flatten().tolist(), found.inputs.untyped_storage().nbytes()
        ([5.0, 5.0, 5.0], 4)
    """
    if not isinstance(dataset, Arrays):
        return dataset
    count = len(dataset)

    def repeated(tensor: Tensor) -> Tensor:
        return tensor[:1].clone().expand(count, *tensor.shape[1:])

    inputs = map_inputs(repeated, dataset.inputs)
    return dataset.like(inputs, repeated(dataset.targets))


def _known(source: DataSource) -> tuple[int, tuple[int, int, int]] | None:
    """Return how many images there are, and their shape."""
    if isinstance(source, HoldOut):
        known = _known(source.source)
        share = source.share if source.part == "held_out" else 1 - source.share
        return None if known is None else (round(known[0] * share), known[1])
    if not isinstance(source, Samples):
        return None
    named = source.dataset
    form = FORMS.get(named.func if isinstance(named, partial) else named)
    if form is None:
        return None
    shares = {"train": 1 - source.held_out, "held_out": source.held_out, "test": 1.0}
    whole = form.test if source.part == "test" else form.train
    count = whole if source.count is None else source.count
    return round(count * shares[source.part]), form.shape
