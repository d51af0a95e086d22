"""Blank data of the form that other data will have once they are made from these.

To price a plan: nothing is trained and no image is read. Where an ensemble chooses
images, they are as many as it could choose.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.seeding import seeded
from tepui.data import Arrays
from tepui.data.loading import at_rows, length
from tepui.models import split_last_layers
from tepui.models.untrained import untrained
from tepui.studies.blank_data import FORMS, blank_arrays
from tepui.studies.derived_data import (
    Changed,
    Copies,
    Features,
    Misjudged,
    ReleasedCopies,
)
from tepui.studies.specifications import DataSource, Trial

Known = Callable[[DataSource], Dataset[Any] | None]
CPU = torch.device("cpu")


def blank_of_made(source: DataSource, known: Known) -> Arrays | None:
    """Return blank data in the place of those that a source makes; None if unknown.

    Args:
        source: What makes data of others.
        known: Returns those others, blank or not.
    """
    if isinstance(source, ReleasedCopies):
        form = FORMS.get(source.dataset)
        return form and blank_arrays(form.test * len(source.types), form.shape)
    if not isinstance(source, Features | Copies | Changed | Misjudged):
        form = source.published
        return form and blank_arrays(form.test, form.shape)
    images = known(source.images)
    if images is None:
        return None
    if isinstance(source, Features):
        shape = tuple(features_of_one(source, images).shape[1:])
        return blank_arrays(length(images), shape, torch.float32)
    times = len(source.types) if isinstance(source, Copies) else 1
    return blank_arrays(times * length(images), tuple(one_of(images).shape[1:]))


def one_of(dataset: Dataset[Any]) -> Tensor:
    """Return the first sample as a model sees it."""
    (batch,) = at_rows(dataset, [torch.zeros(1).long()], device=CPU)
    assert isinstance(batch.inputs, Tensor)
    return batch.inputs


def features_of_one(source: Features, images: Dataset[Any]) -> Tensor:
    """Return an untrained extractor's output on the first image."""
    features = extractor_of(source)(one_of(images))
    assert isinstance(features, Tensor)
    return features


def extractor_of(source: Features) -> nn.Module:
    """Return what makes features, without its weights."""
    model = source.extractor
    return _extractor(model.model if isinstance(model, Trial) else model, source.layers)


@lru_cache(maxsize=1)
def _extractor(factory: Callable[[], nn.Module], layers: int) -> nn.Module:
    with seeded(0, "price"), untrained():
        return split_last_layers(factory(), layers).extractor
