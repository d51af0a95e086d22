"""A frozen extractor's features of a data set, computed once and kept on disk.

A cache is named by the hash of everything it depends on: the extractor's structure and
weights, the samples and their augmentation. So a cache is never used for another
extractor or other data, and nothing is overwritten. Samples in files are known by their
files, as :meth:`tepui.data.StoredData.location` tells them apart, and are not read for
this. Since a module may compute what neither its text nor its weights show, two samples
are checked whenever a cache is read. A pass that was stopped goes on where it was.

An augmented sample has other features in every pass. Passes are kept one after another:
row ``k · samples + i`` is sample ``i`` in pass ``k``.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.seeding import generator
from tepui.core.storage import raw_bytes, read_tensors, write_tensors
from tepui.core.types import check_types
from tepui.data.arrays import Arrays, Batch, prepared
from tepui.data.augment import Augmentation, augment, knowing
from tepui.data.image_files import ImageFiles
from tepui.data.labels import class_names
from tepui.data.loading import (
    as_arrays,
    in_order,
    inputs_to,
    length,
    loaded,
    read_ahead,
    targets_of,
)
from tepui.data.stored import StoredData
from tepui.modules.feature_parts import Advance, FeatureParts
from tepui.modules.running import device_of, evaluating, forward, refusal_named


def _silently(rows: int) -> None:
    """Tell nobody."""


def cached_features(
    extractor: nn.Module,
    dataset: Dataset[Any],
    folder: str | Path,
    *,
    passes: int = 1,
    augment: Sequence[Augmentation] = (),
    seed: int = 0,
    batch_size: int = 256,
    workers: int = 0,
    advance: Advance = _silently,
) -> Arrays:
    """Return an extractor's outputs for a data set, from disk if they are there.

    Args:
        extractor: Runs in eval mode, where it lies; left unchanged.
        dataset: The samples, as the extractor sees them, in a fixed order. Draws of
            the data set's own transforms are the same at every call.
        folder: Where caches are kept.
        passes: How often every sample is read, each time with new draws.
        augment: Random changes of batches, in order, drawn anew in every pass.
        seed: What the draws of ``augment`` derive from.
        batch_size: Samples per pass through the extractor.
        workers: Processes that load a data set of your own.
        advance: Told how many rows were done since it was last told; not called where
            nothing has to be computed.

    Returns:
        Features as inputs, with the data set's targets and classes, on the CPU;
        ``passes`` times as many rows as samples, pass after pass.

    Raises:
        ValueError: If the cache is damaged or not what its name says, the extractor
            does not take the samples or gives NaN, or passes would all be the same.

    Example:
        >>> import tempfile
        >>> data = Arrays(torch.ones(3, 2), torch.tensor([0, 1, 0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     first = cached_features(nn.Linear(2, 4), data, folder)
        ...     files = len(list(Path(folder).iterdir()))
        >>> tuple(first.inputs.shape), files
        ((3, 4), 1)
    """
    check_types(cached_features, locals())
    how = Reading(passes, knowing(augment, dataset), seed, batch_size, workers)
    file, key = features_file(extractor, dataset, folder, how, advance)
    tensors, document = read_tensors(file, "features")
    stored_key = document.get("key")
    require(stored_key == key, str(file), "hold the features of its name", stored_key)
    fresh = _is_from(extractor, dataset, how, tensors["features"])
    rule = "hold the extractor's features (delete it to compute them anew)"
    require(fresh, str(file), rule, "other features")
    return Arrays(tensors["features"], tensors["targets"], classes=_classes(dataset))


def features_file(
    extractor: nn.Module,
    dataset: Dataset[Any],
    folder: str | Path,
    how: "Reading",
    advance: Advance = _silently,
) -> tuple[Path, str]:
    """Return the file of a data set's features, made if need be, and its key."""
    how.check(dataset)
    key = features_key(extractor, dataset, how)
    file = Path(folder) / f"features-{key[:32]}.safetensors"
    if not file.exists():
        parts = FeatureParts(file.with_suffix(".parts"), key)
        rows = how.passes * length(dataset)
        batches = feature_batches(extractor, dataset, how, parts.rows)
        tensors = parts.completed(batches, rows, advance)
        missing = int(tensors["features"].isnan().sum())
        if not missing:
            write_tensors(file, "features", tensors, {"key": key})
        parts.remove()
        require(not missing, "extractor", "give no NaN for the samples", missing)
    return file, key


def features_of(
    extractor: nn.Module,
    dataset: Dataset[Any],
    *,
    batch_size: int = 256,
    workers: int = 0,
) -> Arrays:
    """Return an extractor's outputs for a data set, computed now and not stored.

    Example:
        >>> data = Arrays(torch.ones(3, 2), torch.tensor([0, 1, 0]))
        >>> features_of(nn.Linear(2, 4), data).inputs.shape
        torch.Size([3, 4])
    """
    how = Reading(batch_size=batch_size, workers=workers)
    parts = _extracted(extractor, dataset, how)
    return Arrays(parts["features"], parts["targets"], classes=_classes(dataset))


def feature_batches(
    extractor: nn.Module, dataset: Dataset[Any], how: "Reading", done: int = 0
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield an extractor's outputs and the targets, batch after batch, on the CPU.

    The first ``done`` rows are left out.
    """
    device = device_of(extractor)
    finished, start = divmod(done, length(dataset))
    for number in range(finished, how.passes):
        first = start if number == finished else 0
        for batch in how.batches(dataset, number, device, first):
            samples = len(batch.targets)
            with (
                evaluating(extractor),
                torch.no_grad(),
                refusal_named(batch.inputs, "extractor"),
            ):
                features = forward(extractor, batch.inputs).cpu()
            rule, shape = f"keep {samples} samples apart", tuple(features.shape)
            require(shape[:1] == (samples,), "extractor", rule, shape)
            yield features, batch.targets.cpu()


@dataclass(frozen=True)
class Reading:
    """How the samples of a data set are read; see :func:`cached_features`."""

    passes: int = 1
    augmentations: tuple[Augmentation, ...] = ()
    seed: int = 0
    batch_size: int = 256
    workers: int = 0

    def check(self, dataset: Dataset[Any]) -> None:
        """Raise if a number is out of range, or several passes would not differ."""
        require(self.passes > 0, "passes", "be positive", self.passes)
        require(self.batch_size > 0, "batch_size", "be positive", self.batch_size)
        require(self.workers >= 0, "workers", "be non-negative", self.workers)
        differ = bool(self.augmentations) or targets_of(dataset) is None
        rule = "be 1 unless inputs are random (augment=, or a data set that draws)"
        require(self.passes == 1 or differ, "passes", rule, self.passes)

    def batches(
        self, dataset: Dataset[Any], number: int, device: torch.device, start: int = 0
    ) -> Iterator[Batch]:
        """Yield one of the passes from a row on, as a model sees it."""
        columns = sum(augmentation.draws for augmentation in self.augmentations)
        stream = generator(self.seed, "features", number)
        draws = torch.rand(length(dataset), columns, generator=stream)
        arrays = _held(dataset)
        source = dataset if arrays is None else arrays
        prepare = (
            source.prepare
            if isinstance(source, Arrays | StoredData)
            else partial(prepared, normalize=None)
        )
        raw = self._raw(dataset, arrays, number, device, start)
        parts = draws[start:].split(self.batch_size)
        for batch, uniform in zip(raw, parts, strict=True):
            changed = augment(batch.inputs, self.augmentations, uniform.to(device))
            yield batch._replace(inputs=prepare(changed))

    def _raw(
        self,
        dataset: Dataset[Any],
        arrays: Arrays | None,
        number: int,
        device: torch.device,
        start: int,
    ) -> Iterator[Batch]:
        rows = torch.arange(start, length(dataset)).split(self.batch_size)
        if arrays is None and isinstance(dataset, StoredData):
            yield from read_ahead(dataset, rows, device=device)
            return
        if arrays is None:
            indices = [row.tolist() for row in rows]
            key = ("in order", number) if number else ("in order",)
            yield from loaded(
                dataset, indices, device=device, workers=self.workers, key=key
            )
            return
        for row in rows:
            index = row.to(arrays.device)
            inputs = inputs_to(arrays.raw(index), device)
            yield Batch(inputs, arrays.targets[index].to(device), row)


def features_key(
    extractor: nn.Module, dataset: Dataset[Any], how: Reading | None = None
) -> str:
    """Return a hash of everything that features depend on."""
    how = Reading() if how is None else how
    streams = {"extractor": hashlib.sha256(repr(extractor).encode())}
    for name, tensor in extractor.state_dict().items():
        _add(streams, f"weight {name} {tuple(tensor.shape)}", tensor)
    seed = how.seed if how.augmentations else None
    draws = repr((how.passes, how.augmentations, seed))
    streams["draws"] = hashlib.sha256(draws.encode())
    if isinstance(dataset, StoredData):
        known = json.dumps(dict(dataset.location()), sort_keys=True)
        streams["location"] = hashlib.sha256(known.encode())
        streams["normalize"] = hashlib.sha256(repr(dataset.normalize).encode())
        _add(streams, "targets", dataset.targets)
    elif (arrays := as_arrays(dataset)) is not None:
        streams["normalize"] = hashlib.sha256(repr(arrays.normalize).encode())
        _add_samples(streams, arrays.inputs, arrays.targets)
    else:
        cpu = torch.device("cpu")
        for batch in in_order(dataset, how.batch_size, device=cpu, workers=how.workers):
            _add_samples(streams, batch.inputs, batch.targets)
    total = hashlib.sha256()
    for name, stream in sorted(streams.items()):
        total.update(f"{name} {stream.hexdigest()}\n".encode())
    return total.hexdigest()


def _held(dataset: Dataset[Any]) -> Arrays | None:
    """Return data that lie in memory; image files are not read into it for this."""
    if isinstance(dataset, ImageFiles) and "held" not in vars(dataset):
        return None
    return as_arrays(dataset)


def _classes(dataset: Dataset[Any]) -> tuple[str, ...]:
    return class_names(dataset) if targets_of(dataset) is not None else ()


def _extracted(
    extractor: nn.Module, dataset: Dataset[Any], how: Reading
) -> dict[str, Tensor]:
    rows, targets = zip(*feature_batches(extractor, dataset, how), strict=True)
    return {"features": torch.cat(rows), "targets": torch.cat(targets)}


def _is_from(
    extractor: nn.Module, dataset: Dataset[Any], how: Reading, kept: Tensor
) -> bool:
    """Compare two samples: a module may compute what neither text nor weights show."""
    few = replace(how, batch_size=2)
    batch = next(few.batches(dataset, 0, device_of(extractor)))
    with evaluating(extractor), torch.no_grad():
        fresh = forward(extractor, batch.inputs).cpu()
    kept = kept[: len(fresh)]
    if fresh.shape != kept.shape:
        return False
    return torch.allclose(fresh, kept, rtol=0, atol=0.01 * float(kept.abs().max()))


def _add_samples(
    streams: dict[str, Any], inputs: Tensor | Mapping[str, Tensor], targets: Tensor
) -> None:
    named = {"": inputs} if isinstance(inputs, Tensor) else inputs
    for name, tensor in named.items():
        _add(streams, f"inputs {name} {tuple(tensor.shape[1:])}", tensor)
    _add(streams, f"targets {tuple(targets.shape[1:])}", targets)


def _add(streams: dict[str, Any], name: str, tensor: Tensor) -> None:
    """Add a tensor's bytes to a stream; how samples are batched does not show."""
    stream = streams.setdefault(name, hashlib.sha256(str(tensor.dtype).encode()))
    stream.update(raw_bytes(tensor).numpy())
