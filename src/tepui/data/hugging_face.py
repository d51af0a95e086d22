"""Data sets of Hugging Face's library ``datasets``, which stay in Arrow files."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.extras import extra
from tepui.core.storage import raw_bytes
from tepui.data.arrays import Inputs, Normalize
from tepui.data.image_files import Frame, pixels_of
from tepui.data.stored import StoredRows


@final
class HuggingFace(StoredRows):
    """A data set of Hugging Face's library, read row by row from its Arrow files.

    Images are decoded when a batch needs them; columns of numbers, or of lists of
    numbers of one length, become tensors. It trains to the same bits as the same
    samples held in :class:`Arrays`, with resuming and stratified batches.

    A run folder records the library's fingerprint of the data set. One that the library
    could not compute is drawn at random, and such a run cannot be resumed.

    Args:
        dataset: A ``datasets.Dataset``, such as ``load_dataset(...)["train"]``; not a
            streaming one, which has no length and no order to resume in.
        target: The column that holds the labels.
        input: The column that holds the inputs, or several for a model with named
            inputs, such as ``("input_ids", "attention_mask")``. Without it, the only
            other column.
        size: Side of the images in pixels, as for :class:`ImageFolder`; None keeps
            images of one size as they are.
        gray: Read one gray channel instead of three color channels.
        normalize: Applied to batches of images; None scales bytes to ``[0, 1]``.

    Raises:
        ImportError: If ``datasets`` is not installed.
        ValueError: If a column is missing, or holds texts or something else that is no
            number.
    """

    def __init__(
        self,
        dataset: Any,
        target: str,
        input: str | Sequence[str] | None = None,
        *,
        size: int | None = None,
        gray: bool = False,
        normalize: Normalize | None = None,
    ) -> None:
        rule = "be a datasets.Dataset with length and order"
        kind = type(dataset).__name__
        fits = isinstance(dataset, extra("datasets", "hub").Dataset)
        require(fits, "dataset", rule, kind)
        names = dataset.column_names
        columns = _columns(names, target, input)
        self._single = not isinstance(input, list | tuple)
        self._images = {n for n in columns if _kind(dataset, n) == "Image"}
        numbers = [name for name in columns if name not in self._images]
        # Formats and transforms of its own would decide what a row is.
        self._pictures = dataset.select_columns([*self._images]).with_format(None)
        self._numbers = dataset.select_columns(numbers).with_format("numpy")
        self._columns, self._dataset = columns, dataset
        self._frame, self._gray = None if size is None else Frame(size), gray
        held = dataset.select_columns([target]).with_format("numpy")
        self.targets = _tensor(target, held[:][target])
        self.classes = tuple(getattr(dataset.features[target], "names", None) or ())
        self.normalize = normalize
        self._rows = torch.arange(len(dataset))
        self.raw(self._rows[:1])  # refuses columns that hold no numbers

    def raw(self, index: Tensor) -> Inputs:
        """Read and decode some of the rows.

        Args:
            index: Positions of the samples.

        Returns:
            Bytes ``(samples, channels, height, width)`` for images, or the numbers; a
            mapping where several columns are the inputs.
        """
        rows = self._rows[index.cpu()].tolist()
        pictures = self._pictures[rows] if self._images else {}
        numbers = self._numbers[rows] if len(self._images) < len(self._columns) else {}
        parts = {
            name: self._decoded(name, pictures[name])
            if name in self._images
            else _tensor(name, numbers[name])
            for name in self._columns
        }
        return parts[self._columns[0]] if self._single else parts

    def identity(self) -> dict[str, Any]:
        """Return the library's fingerprint, a hash of the rows, and how they are read.

        Returns:
            Values that JSON can hold.
        """
        rows = hashlib.sha256(raw_bytes(self._rows).numpy().data).hexdigest()
        frame = None if self._frame is None else asdict(self._frame)
        columns, gray = list(self._columns), self._gray
        about = {"columns": columns, "rows": rows, "frame": frame, "gray": gray}
        return {"fingerprint": self._dataset._fingerprint, **about}

    def _decoded(self, name: str, images: Sequence[Any]) -> Tensor:
        pixels = [pixels_of(image, self._frame, self._gray) for image in images]
        shapes = {tuple(image.shape[1:]) for image in pixels}
        rule = f"hold images of one size in column {name!r} unless a size is given"
        require(len(shapes) == 1, "dataset", rule, sorted(shapes))
        return torch.stack(pixels)


def _columns(
    names: Sequence[str], target: str, given: str | Sequence[str] | None
) -> tuple[str, ...]:
    """Return the columns that are inputs."""
    rule = f"be a column of the data set, one of {list(names)}"
    require(target in names, "target", rule, target)
    others = [name for name in names if name != target]
    if given is None:
        rule = f"name the column or columns that are inputs, some of {others}"
        require(len(others) == 1, "input", rule, None)
    columns = others if given is None else [given] if isinstance(given, str) else given
    require(len(columns) > 0, "input", "name at least one column", given)
    for name in columns:
        require(name in names, "input", rule, name)
    return tuple(columns)


def _kind(dataset: Any, name: str) -> str:
    return type(dataset.features[name]).__name__


def _tensor(name: str, values: Any) -> Tensor:
    array = np.asarray(values)
    if array.dtype.kind not in "uifb":
        raise ValueError(
            f"column {name!r} must hold numbers, or lists of numbers of one length, "
            f"got {array.dtype}; turn texts into numbers first, such as by "
            "dataset.map(tokenizer, batched=True)"
        )
    return torch.from_numpy(np.ascontiguousarray(array))
