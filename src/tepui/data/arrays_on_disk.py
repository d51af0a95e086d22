"""Arrays in files that stay on disk, for data beyond memory."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, final, get_args

import torch
from torch import Tensor

from tepui.core.checks import different_names, one_of, require
from tepui.core.storage import raw_bytes
from tepui.data.arrays import Arrays, Inputs, Normalize
from tepui.data.stored import StoredRows
from tepui.data.stored_array import StoredArray, contents_digest

File = str | Path | StoredArray
Channels = Literal["first", "last"]


@final
class ArraysOnDisk(StoredRows):
    """A map-style data set in ``.npy`` or ``.safetensors`` files, read row by row.

    It trains and tests to the same bits as :class:`Arrays` of the same numbers, in any
    order, with stratified batches and with resuming. What a process holds of it are the
    targets and a few batches.

    A run folder records the SHA-256 of each file. It is computed once and kept beside
    the file, in ``.NAME.sha256.json``, for as long as size and time of change stay the
    same; where that cannot be written, every run that has a folder reads the file
    through once.

    Args:
        inputs: The file that holds the inputs, samples along the first axis; or one for
            each of the named inputs of a model. ``StoredArray.open(file, name)``
            chooses one of several tensors of a ``.safetensors`` file.
        targets: The file that holds the targets, or the targets.
        normalize: Applied to batches of images or vectors, as in :class:`Arrays`.
        classes: Names of the classes, where they have names.
        channels: Whether the channels of images come first in the file, or last.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a file is damaged or cut short, or the files do not hold equally
            many samples.

    Example:
        >>> import tempfile, numpy as np
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(f"{folder}/x.npy", np.arange(12.0).reshape(4, 3))
        ...     np.save(f"{folder}/y.npy", np.array([0, 1, 0, 1]))
        ...     data = ArraysOnDisk(f"{folder}/x.npy", f"{folder}/y.npy")
        ...     data.raw(torch.tensor([2, 0]))
        tensor([[6., 7., 8.],
                [0., 1., 2.]], dtype=torch.float64)
    """

    def __init__(
        self,
        inputs: File | Mapping[str, File],
        targets: File | Tensor,
        normalize: Normalize | None = None,
        classes: tuple[str, ...] = (),
        channels: Channels = "first",
    ) -> None:
        one_of("channels", channels, get_args(Channels))
        different_names("classes", classes)
        self.targets = _targets(targets)
        self.normalize, self.classes, self.channels = normalize, classes, channels
        self._named = isinstance(inputs, Mapping)
        files = inputs if isinstance(inputs, Mapping) else {"": inputs}
        self._files = {name: _opened(file) for name, file in files.items()}
        self._rows = torch.arange(len(self.targets))
        self._check()

    def raw(self, index: Tensor) -> Inputs:
        """Read some of the rows.

        Args:
            index: Positions of the samples.

        Returns:
            Their inputs as they are stored; images with channels first.
        """
        rows = self._rows[index.cpu()]
        parts = {name: self._read(file, rows) for name, file in self._files.items()}
        return parts if self._named else parts[""]

    def identity(self) -> dict[str, Any]:
        """Return a hash of the files' contents, the rows taken and the targets.

        Returns:
            The hash, and where the channels are.
        """
        digest = hashlib.sha256()
        for name, file in sorted(self._files.items()):
            about = f"{name} {file.start} {file.shape} {file.dtype} "
            digest.update((about + contents_digest(file.path)).encode())
        for tensor in (self._rows, self.targets):
            digest.update(raw_bytes(tensor).numpy().data)
        return {"sha256": digest.hexdigest(), "channels": self.channels}

    def load(self) -> Arrays:
        """Read everything into memory.

        Returns:
            The same samples in tensors.
        """
        inputs = self.raw(torch.arange(len(self)))
        return Arrays(inputs, self.targets, self.normalize, self.classes)

    def _read(self, file: StoredArray, rows: Tensor) -> Tensor:
        values = file.read(rows)
        if self.channels == "last" and values.ndim == 4:
            return values.permute(0, 3, 1, 2).contiguous()
        return values

    def _check(self) -> None:
        require(len(self._files) > 0, "inputs", "name at least one file", self._files)
        rule = f"hold as many samples as there are targets ({len(self)})"
        for file in self._files.values():
            require(file.shape[0] == len(self), str(file.path), rule, file.shape)


def _opened(file: File) -> StoredArray:
    return file if isinstance(file, StoredArray) else StoredArray.open(file)


def _targets(targets: File | Tensor) -> Tensor:
    """Read the targets, which are held; whole numbers become int64."""
    if not isinstance(targets, Tensor):
        targets = _opened(targets).read_all()
    if targets.ndim == 2 and targets.shape[1] == 1:
        targets = targets[:, 0]
    return targets if targets.is_floating_point() else targets.long()
