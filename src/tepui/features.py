"""What a frozen extractor says about a data set, computed once and kept on disk.

A cache is named by the hash of everything it depends on: the extractor's structure and
weights and the samples. Another extractor or other data therefore never meet a cache
that is not theirs; nothing is overwritten. Since a module may compute what neither its
text nor its weights show, two samples are computed again whenever a cache is read.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.checks import require
from tepui.data.arrays import Arrays
from tepui.data.loading import as_arrays, in_order
from tepui.inference import device_of, evaluating, forward
from tepui.storage import raw_bytes, read_tensors, write_tensors

KIND = "features"


def cached_features(
    extractor: nn.Module,
    dataset: Dataset[Any],
    folder: str | Path,
    *,
    batch_size: int = 256,
    workers: int = 0,
) -> Arrays:
    """Return an extractor's outputs for a data set, from disk if they are there.

    Args:
        extractor: Runs in eval mode, where it lies; left as it was.
        dataset: The samples, as the extractor sees them, in a fixed order. Draws of
            the data set's own transforms are the same at every call.
        folder: Where caches are kept.
        batch_size: Samples per pass.
        workers: Processes that load a data set not held in tensors.

    Returns:
        Features as inputs, with the data set's targets and classes, on the CPU.

    Raises:
        ValueError: If the cache is damaged or not what its name says.

    Example:
        >>> import tempfile
        >>> data = Arrays(torch.ones(3, 2), torch.tensor([0, 1, 0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     first = cached_features(nn.Linear(2, 4), data, folder)
        ...     files = len(list(Path(folder).iterdir()))
        >>> tuple(first.inputs.shape), files
        ((3, 4), 1)
    """
    key = features_key(extractor, dataset, batch_size=batch_size, workers=workers)
    file = Path(folder) / f"features-{key[:32]}.safetensors"
    if not file.exists():
        parts = _extracted(extractor, dataset, batch_size, workers)
        write_tensors(file, parts, {"kind": KIND, "key": key})
    tensors, document = read_tensors(file)
    found = document.get("kind"), document.get("key")
    require(found == (KIND, key), str(file), "hold the features its name says", found)
    require(
        _is_from(extractor, dataset, tensors["features"]),
        str(file),
        "hold what the extractor says (delete it to compute it anew)",
        "other features",
    )
    arrays = as_arrays(dataset)
    classes = () if arrays is None else arrays.classes
    return Arrays(tensors["features"], tensors["targets"], classes=classes)


def features_key(
    extractor: nn.Module,
    dataset: Dataset[Any],
    *,
    batch_size: int = 256,
    workers: int = 0,
) -> str:
    """Return a hash of everything that features depend on.

    Args:
        extractor: Its structure, as it prints, and its weights and buffers count.
        dataset: All samples, targets and the normalisation count.
        batch_size: Samples read at once; the hash does not depend on it.
        workers: Processes that load a data set not held in tensors.

    Returns:
        A SHA-256 in hexadecimal.
    """
    streams = {"extractor": hashlib.sha256(repr(extractor).encode())}
    for name, tensor in extractor.state_dict().items():
        _add(streams, f"weight {name} {tuple(tensor.shape)}", tensor)
    arrays = as_arrays(dataset)
    if arrays is not None:
        streams["normalize"] = hashlib.sha256(repr(arrays.normalize).encode())
        _add_samples(streams, arrays.inputs, arrays.targets)
    else:
        cpu = torch.device("cpu")
        for batch in in_order(dataset, batch_size, device=cpu, workers=workers):
            _add_samples(streams, batch.inputs, batch.targets)
    total = hashlib.sha256()
    for name, stream in sorted(streams.items()):
        total.update(f"{name} {stream.hexdigest()}\n".encode())
    return total.hexdigest()


def _extracted(
    extractor: nn.Module, dataset: Dataset[Any], batch_size: int, workers: int
) -> dict[str, Tensor]:
    features, targets = [], []
    device = device_of(extractor)
    with evaluating(extractor), torch.no_grad():
        for batch in in_order(dataset, batch_size, device=device, workers=workers):
            features.append(forward(extractor, batch.inputs).cpu())
            targets.append(batch.targets.cpu())
    return {"features": torch.cat(features), "targets": torch.cat(targets)}


def _is_from(extractor: nn.Module, dataset: Dataset[Any], features: Tensor) -> bool:
    """Compare two samples: a module may compute what neither text nor weights show."""
    batch = next(in_order(dataset, 2, device=device_of(extractor)))
    with evaluating(extractor), torch.no_grad():
        fresh = forward(extractor, batch.inputs).cpu()
    kept = features[: len(fresh)]
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
