"""What ``predict`` takes, as batches that members see.

Whether inputs are raw is decided by what they are, never by their values:

- A data set prepares its samples itself.
- Image files, those of an ``UnlabeledFolder`` too, and texts are raw, and prepared as
  the training data were.
- Images of bytes (``uint8``) are raw, as they are stored in data sets of images. So are
  other whole numbers if members learned from such images.
- All other numbers are taken as they come, or with ``raw=True`` prepared too. Their
  type is of no effect.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from tepui.core.checks import require
from tepui.data.arrays import Inputs, are_images_of_bytes
from tepui.data.image_files import files_at
from tepui.data.image_folders import UnlabeledFolder
from tepui.data.loading import in_order, inputs_to, length
from tepui.data.preparation import Preparation
from tepui.data.table import is_frame
from tepui.modules.running import chunks

KINDS = (
    "a tensor, a numpy array, a mapping of either, a map-style data set, a path to an "
    "image, to a folder of images or to a table, several paths to images, a text or "
    "several"
)


def input_batches(
    inputs: Any,
    preparation: Preparation | None,
    *,
    raw: bool,
    batch_size: int,
    workers: int,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
) -> Iterator[Inputs]:
    """Yield inputs of any kind in batches, prepared and on a device.

    Floating numbers of numpy's come in the type that members compute in.
    """
    require(batch_size > 0, "batch_size", "be positive", batch_size)
    rule = "be False for a file of rows, which are standardized as they are read"
    require(not (raw and _is_table(inputs, preparation)), "raw", rule, raw)
    if raw and preparation is not None and preparation.columns:
        dtype = torch.float64  # until they are standardized
    given = as_data(inputs, preparation, dtype)
    if isinstance(given, Tensor | Mapping):
        for chunk in chunks(given, batch_size):
            yield prepared_inputs(inputs_to(chunk, device), preparation, raw)
        return
    rule = "be False for data sets, which prepare their samples themselves"
    require(not (raw and given is inputs), "raw", rule, raw)
    where: dict[str, Any] = {"device": device, "workers": workers}
    for batch in in_order(_pairs(given), batch_size, **where):
        yield batch.inputs


def _files_of(inputs: Any) -> list[Path] | None:
    """Return the image files that a path or several stand for; None for others."""
    several = [inputs] if isinstance(inputs, str | Path) else inputs
    listed = isinstance(several, Sequence) and len(several) > 0
    if not listed or not all(isinstance(item, str | Path) for item in several):
        return None
    return [file for item in several for file in files_at(Path(item))]


def as_data(inputs: Any, preparation: Preparation | None, dtype: torch.dtype) -> Any:
    """Return tensors or a data set in the place of any kind of inputs."""
    if isinstance(inputs, Tensor | np.ndarray):
        require(inputs.ndim > 0, "inputs", "be several samples", "a single number")
        return _tensor(inputs, dtype)
    if isinstance(inputs, Mapping):
        arrays = (isinstance(v, Tensor | np.ndarray) for v in inputs.values())
        fits = len(inputs) > 0 and all(arrays)
        _require_known(fits, inputs)
        return {str(name): _tensor(value, dtype) for name, value in inputs.items()}
    if _are_texts(inputs, preparation):
        assert preparation is not None
        return preparation.texts([inputs] if isinstance(inputs, str) else inputs)
    if _is_table(inputs, preparation):
        return (preparation or Preparation()).table(inputs)
    known = preparation is not None and preparation.shape is not None
    if isinstance(inputs, UnlabeledFolder) and known:
        inputs = [*inputs.files]
    files = _files_of(inputs)
    if files is not None:
        return _known(preparation, "image files").images(files)
    mapped = hasattr(inputs, "__getitem__") and hasattr(inputs, "__len__")
    known = mapped and not isinstance(inputs, IterableDataset | bytes)
    _require_known(known and len(inputs) > 0, inputs)
    return inputs


def prepared_inputs(
    inputs: Inputs, preparation: Preparation | None, raw: bool
) -> Inputs:
    """Return numbers as a model sees them: stored images, and what is raw, prepared."""
    stored = isinstance(inputs, Tensor) and (
        are_images_of_bytes(inputs)
        or (preparation is not None and preparation.reads_as_bytes(inputs))
    )
    if not (raw or stored):
        return inputs
    return _known(preparation, "raw inputs").tensors(inputs)


def _known(preparation: Preparation | None, what: str) -> Preparation:
    """Return how the training data were prepared, which raw inputs need."""
    rule = (
        f"know how its training data were prepared to take {what} (fit on a data set "
        "of tepui.data says so)"
    )
    require(preparation is not None, "ensemble", rule, "it does not")
    assert preparation is not None
    return preparation


def _are_texts(inputs: Any, preparation: Preparation | None) -> bool:
    """Return whether inputs are texts, which words are only where there is a tokenizer.

    A ``Path`` is never a text.
    """
    if preparation is None or preparation.tokenizer is None:
        return False
    several = isinstance(inputs, list | tuple) and len(inputs) > 0
    return isinstance(inputs, str) or (several and all(map(_is_text, inputs)))


def _is_table(inputs: Any, preparation: Preparation | None) -> bool:
    """Return whether inputs are a file of rows such as members learned from."""
    learned = preparation is not None and bool(preparation.columns)
    return (learned and isinstance(inputs, str | Path)) or is_frame(inputs)


def _is_text(item: Any) -> bool:
    pair = isinstance(item, tuple) and len(item) == 2
    return isinstance(item, str) or (pair and all(isinstance(t, str) for t in item))


class _Alone(Dataset[Any]):
    """Items without targets, as pairs."""

    def __init__(self, items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.items[index], 0


def _pairs(dataset: Any) -> Dataset[Any]:
    length(dataset)
    item = dataset[0]
    paired = isinstance(item, tuple | list) and len(item) == 2
    first = item[0] if paired else item
    _require_known(isinstance(first, Tensor | np.ndarray | Mapping), dataset)
    return dataset if paired else _Alone(dataset)


def _tensor(value: Tensor | np.ndarray[Any, Any], dtype: torch.dtype) -> Tensor:
    if isinstance(value, Tensor):
        return value
    numbers = value.dtype.kind in "uifb"
    require(numbers, "inputs", "hold numbers", f"an array of {value.dtype}")
    tensor = torch.from_numpy(np.ascontiguousarray(value))
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def _require_known(known: bool, inputs: Any) -> None:
    if known:
        return
    shown = type(inputs).__name__
    if isinstance(inputs, list | tuple) and inputs:
        shown += f" of {type(inputs[0]).__name__}"
    raise ValueError(f"inputs must be {KINDS}, got {shown}")


def place_of(inputs: Any) -> torch.device:
    """Return where predictions belong: where inputs lie, or on the CPU."""
    if isinstance(inputs, Mapping):
        inputs = next(iter(inputs.values()), None)
    return inputs.device if isinstance(inputs, Tensor) else torch.device("cpu")
