"""Data that are made from other data: features, corrupted copies, changed images.

Each is a :class:`~tepui.studies.specifications.DataSource`, so that its description
names all that it depends on, down to the trial that trained the extractor.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.utils.data import ConcatDataset, Dataset

from tepui.core.checks import require
from tepui.core.lease import LEASE, leased
from tepui.core.seeding import generator
from tepui.core.spec import document
from tepui.core.storage import read_tensors, writing_tensors
from tepui.data import (
    Arrays,
    ArraysOnDisk,
    Augmentation,
    StoredArray,
    corrupted,
    prepared_like,
    to_arrays,
)
from tepui.data.augment import augment
from tepui.data.loading import length
from tepui.ensembles.outputs import dataset_logits
from tepui.metrics import ensemble_predictions
from tepui.models import split_last_layers
from tepui.modules.features import Reading, feature_batches
from tepui.studies.specifications import DataSource, DataStore, Trial

FOLDER = "features"
HELD = 2**30  # bytes of one set
CHUNK = 1000  # images augmented at a time


@final
@dataclass(frozen=True)
class Features(DataSource):
    """What a frozen extractor says of images, kept on disk."""

    # A trial of one member, or what returns a trained model, such as
    # "functools.partial" of tepui.models.from_timm
    extractor: Trial | Callable[[], nn.Module]
    # what it looks at. Where the extractor is a trial, images of another form are
    # brought to that of its training data
    images: DataSource
    layers: int = 1  # how many of its last layers are cut off

    def load(self, store: DataStore) -> Dataset[Any]:
        """Return the features, from the store's folder if they are there.

        They are held where they take no more than 1 GiB, and else stay on disk.
        """
        file = self.file(store)
        with leased(file.with_suffix(LEASE), store.stale_after):
            if not file.exists():
                self._write(store, file)
        features = StoredArray.open(file, "features")
        if features.num_bytes > HELD:
            return ArraysOnDisk(features, StoredArray.open(file, "targets"))
        tensors, _ = read_tensors(file, "data")
        return Arrays(tensors["features"], tensors["targets"])

    def file(self, store: DataStore) -> Path:
        """Return where a store keeps the features."""
        return store.path / FOLDER / f"{self.digest}.safetensors"

    def _write(self, store: DataStore, file: Path) -> None:
        """Compute the features, batch after batch into the file."""
        front, images = self._extractor(store)
        samples, start = length(images), 0
        about = {"about": document(self)}
        with writing_tensors(file, "data", ["features", "targets"], about) as stream:
            for features, targets in feature_batches(front, images, Reading()):
                parts = {"features": features, "targets": targets}
                for name, part in parts.items():
                    if start == 0:
                        stream.begin(name, (samples, *part.shape[1:]), part.dtype)
                    stream.put(name, part, start)
                start += len(targets)

    def _extractor(self, store: DataStore) -> tuple[nn.Module, Dataset[Any]]:
        """Return the frozen front of the model, and what it looks at."""
        images = self.images.load(store)
        if isinstance(self.extractor, Trial):
            model: nn.Module = store.run(self.extractor).ensemble.members[0]
            images = prepared_like(images, store.dataset(self.extractor.data))
        else:
            model = self.extractor()
        front = split_last_layers(model, self.layers).extractor.to(store.device)
        return front, images


@final
@dataclass(frozen=True)
class Copies(DataSource):
    """Corrupted copies of images, those of all types after each other."""

    images: DataSource
    types: tuple[str, ...]
    severity: int  # of all of them
    strength: str = "cifar"  # whose parameters they take, see tepui.data.corrupt
    seed: int = 0  # same seed, same draws

    def load(self, store: DataStore) -> Arrays:
        """Return as many times more images as there are types."""
        clean = to_arrays(store.dataset(self.images))
        copies = corrupted(
            clean,
            types=self.types,
            severities=(self.severity,),
            strength=self.strength,
            seed=self.seed,
        )
        parts = [copies[cell].inputs for cell in copies]
        inputs = torch.cat([part for part in parts if isinstance(part, Tensor)])
        return clean.like(inputs, clean.targets.repeat(len(parts)))


@final
@dataclass(frozen=True)
class ReleasedCopies(DataSource):
    """Corrupted copies as their authors released them, those of all types together."""

    dataset: Callable[..., Any]  # their class, such as "tepui.data.ImageNetC"
    types: tuple[str, ...]
    severity: int  # of all of them

    def load(self, store: DataStore) -> Dataset[Any]:
        """Return the copies of all types after each other."""
        cells = self.dataset(types=self.types, severities=(self.severity,))
        return ConcatDataset([cells[name, self.severity] for name in self.types])


@final
@dataclass(frozen=True)
class Changed(DataSource):
    """Images that a function has changed; labels stay."""

    images: DataSource
    # from images to images, floats in [0, 1], of any number
    change: Callable[[Tensor], Tensor]

    def load(self, store: DataStore) -> Arrays:
        """Return the changed images, as bytes."""
        images = to_arrays(store.dataset(self.images))
        assert isinstance(images.inputs, Tensor)
        full = 255 if images.inputs.dtype == torch.uint8 else 1
        changed = self.change(images.inputs.float() / full)
        return images.like(changed.clamp(0, 1).mul(255).round().byte(), images.targets)


@final
@dataclass(frozen=True)
class Misjudged(DataSource):
    """Images that a trained ensemble gets wrong, as ImageNet-A was chosen."""

    images: DataSource  # what to choose from
    judge: Trial  # the ensemble; it should not be the one that is to be tested

    def load(self, store: DataStore) -> Arrays:
        """Return those images, in their order."""
        images = to_arrays(store.dataset(self.images))
        logits, labels = dataset_logits(store.run(self.judge).ensemble, images)
        wrong = (ensemble_predictions(logits) != labels).nonzero().flatten().cpu()
        require(
            len(wrong) > 0, "images", "hold at least one that the judge gets wrong", 0
        )
        return images.subset(wrong)


@final
@dataclass(frozen=True)
class Augmented(DataSource):
    """Other data with every image augmented once, the same way at every load."""

    of: DataSource  # images held in tensors
    augment: tuple[Augmentation, ...]  # what to apply, in order
    seed: int = 0  # same seed, same copy

    def __post_init__(self) -> None:
        require(len(self.augment) > 0, "augment", "hold at least one", self.augment)

    def load(self, store: DataStore) -> Arrays:
        """Return the copy, in the order of the data."""
        data = store.dataset(self.of)
        images = data.inputs if isinstance(data, Arrays) else None
        if not isinstance(data, Arrays) or not isinstance(images, Tensor):
            raise ValueError(
                f"of must give images held in tensors, got {type(data).__name__}"
            )
        columns = sum(augmentation.draws for augmentation in self.augment)
        stream = generator(self.seed, "augmented")
        uniform = torch.rand(len(data), columns, generator=stream).to(images.device)
        parts: list[Any] = [
            augment(some, self.augment, draws)
            for some, draws in zip(
                images.split(CHUNK), uniform.split(CHUNK), strict=True
            )
        ]
        return data.like(torch.cat(parts), data.targets)
