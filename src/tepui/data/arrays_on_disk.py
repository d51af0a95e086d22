"""Arrays in files: read into memory, or row by row for data beyond memory.

An ``ArrayFile`` is an ``.npz`` file with the arrays ``x_train``, ``y_train``,
``x_test`` and ``y_test``, or a folder with an ``.npy`` file for each. Larger ``.npy``
and ``.safetensors`` files are mapped for as long as a batch of rows is copied: pages of
a mapped file count as the process's own memory, which would grow with the data. Nothing
is ever unpickled.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self, final, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tepui.core.checks import different_names, one_of, require
from tepui.core.limits import check_limit
from tepui.core.storage import opened, raw_bytes, start_of
from tepui.data.arrays import Arrays, Inputs, Normalize, to_tensor
from tepui.data.published import file_digest, require_file
from tepui.data.stored import StoredData

CHANNELS_OF_IMAGES = (1, 3, 4)  # gray, color, color with transparency


@final
class ArrayFile(Arrays):
    """Arrays in numpy files.

    Bytes stay bytes; other numbers become float32. Arrays with four axes are images,
    and bytes with three are gray images; anything else is features. Targets are
    classes; or rows of zeros and ones, one for each label; or numbers to predict; or
    masks ``(samples, height, width)``, the class of every pixel, -100 without one.

    Args:
        path: An ``.npz`` file, or a folder with ``.npy`` files.
        train: The training part if true, else the test part.
        channels: Whether the channels of images come last or first; where it is not
            given, first in images of shape (1, 3 or 4, height, width) whose last axis
            is longer than 4, else last.
        mean: What is subtracted from each channel of images on the scale from 0 to 1;
            without it images are not normalized.
        std: What each channel is divided by.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If an array is missing, damaged or of objects, targets are no
            number, row of numbers or mask per sample, or there are not as many as
            samples.
    """

    def __init__(
        self,
        path: str | Path,
        train: bool = True,
        channels: Literal["last", "first"] | None = None,
        mean: tuple[float, ...] | None = None,
        std: tuple[float, ...] | None = None,
    ) -> None:
        part = "train" if train else "test"
        inputs = _inputs(_load(Path(path), f"x_{part}"), channels)
        targets = _targets(_load(Path(path), f"y_{part}"), part)
        require((mean is None) == (std is None), "std", "be given with mean", std)
        normalize = Normalize(mean, std) if mean and std else None
        super().__init__(inputs, targets, normalize)


def _targets(values: npt.NDArray[Any], part: str) -> Tensor:
    """Return classes and labels as whole numbers, all other numbers as float32."""
    values = values.reshape(-1) if values.shape[1:] == (1,) else values
    whole = values.dtype.kind in "iub"
    fits = values.ndim in (1, 2) and values.dtype.kind in "iufb"
    fits = fits or (values.ndim == 3 and whole)
    rule = "hold a number, a row of them, or a mask of whole numbers per sample"
    require(fits, f"y_{part}", rule, described(values))
    return torch.from_numpy(values.astype(np.int64 if whole else np.float32))


def _load(path: Path, name: str) -> npt.NDArray[Any]:
    """Return one array of an archive or a folder; objects are refused."""
    file = path / f"{name}.npy" if path.is_dir() else path
    require_file(file)
    try:
        if path.is_dir():
            return np.array(opened_array(file))
        with file.open("rb") as stream, np.load(stream) as archive:
            require(name in archive, str(file), f"hold {name!r}", archive.files[:20])
            size = archive.zip.getinfo(f"{name}.npy").file_size
            check_limit("unpacked_bytes", size, file)
            found: npt.NDArray[Any] = archive[name]
            return found
    except Exception as error:  # a damaged file can fail in any way
        raise ValueError(f"{name} must be an array in {file}: {error}") from error


def _inputs(array: npt.NDArray[Any], channels: str | None) -> torch.Tensor:
    numeric = array.ndim > 1 and array.dtype.kind in "uifb"
    rule = "hold numbers, samples along the first axis"
    require(numeric, "x", rule, described(array))
    kind = np.uint8 if array.dtype == np.uint8 else np.float32
    tensor = torch.from_numpy(np.ascontiguousarray(array, dtype=kind))
    if kind is np.uint8 and tensor.ndim == 3:
        return tensor[:, None]
    if tensor.ndim == 4 and (channels or _channels_of(tensor)) == "last":
        tensor = tensor.permute(0, 3, 1, 2).contiguous()
    return tensor


def _channels_of(images: Tensor) -> str:
    """Return where images have their channels, as far as their shape tells.

    Example:
        >>> _channels_of(torch.zeros(5, 1, 8, 8)), _channels_of(torch.zeros(5, 8, 8, 3))
        ('first', 'last')
    """
    most = max(CHANNELS_OF_IMAGES)
    first = images.shape[1] in CHANNELS_OF_IMAGES and images.shape[3] > most
    return "first" if first else "last"


def described(array: npt.NDArray[Any]) -> str:
    """Return the type and shape of an array, for a message."""
    return f"{array.dtype} of shape {array.shape}"


def rows_in(path: Path) -> Tensor:
    """Return the rows of numbers in a ``.npy`` file; floats as torch has them."""
    array = opened_array(path)
    fits = array.ndim > 1 and len(array) > 0 and array.dtype.kind in "uifb"
    rule = "hold numbers, samples along the first axis"
    require(fits, str(path), rule, described(array))
    return to_tensor(str(path), array)


def opened_array(path: Path) -> "np.memmap[Any, Any]":
    """Return the memory-mapped array of a ``.npy`` file; objects are refused."""
    require_file(path)
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # a damaged file can fail in any way
        raise ValueError(f"{path} must be a valid .npy file: {error}") from error


@dataclass(frozen=True)
class StoredArray:
    """Where an array lies, and what it holds.

    Attributes:
        path: Its file.
        start: Where its first row begins, in bytes.
        shape: Its shape, samples along the first axis.
        dtype: The type of its numbers.
    """

    path: Path
    start: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    @classmethod
    def open(cls, path: str | Path, name: str | None = None) -> "StoredArray":
        """Read a file's header.

        Args:
            path: A file that ends in ``.npy`` or ``.safetensors``.
            name: Which of the tensors of a ``.safetensors`` file; its only one if not
                given.

        Returns:
            The array, of which nothing has been read.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the file is damaged, cut short, of another kind, or holds no
                rows of numbers.
        """
        file = Path(path)
        require_file(file)
        readers = {".npy": _numpy_header, ".safetensors": _safetensors_header}
        rule = "end in .npy or .safetensors"
        require(file.suffix in readers, str(file), rule, file.suffix)
        array = readers[file.suffix](file, name)
        rule = "hold samples along a first axis"
        require(len(array.shape) > 0 and array.shape[0] > 0, str(file), rule, array)
        return array

    @property
    def row_bytes(self) -> int:
        """How many bytes a row takes."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def num_bytes(self) -> int:
        """How many bytes all rows take."""
        return self.shape[0] * self.row_bytes

    def read(self, index: Tensor) -> Tensor:
        """Read some of the rows.

        Args:
            index: Their positions, in any order.

        Returns:
            The rows, in the order of ``index``.

        Raises:
            ValueError: If the file was cut short since it was opened.
        """
        shape = len(index), *self.shape[1:]
        if math.prod(shape) == 0:
            return torch.empty(shape, dtype=self.dtype)
        whole = self.shape[0], self.row_bytes
        try:
            mapped = np.memmap(self.path, np.uint8, "r", self.start, whole)
        except ValueError as error:
            held = self.path.stat().st_size
            rule = f"hold {self.start + self.num_bytes} bytes, as its header says"
            raise ValueError(f"{self.path} must {rule}, got {held}") from error
        rows = torch.from_numpy(mapped[index.numpy()])
        return rows.view(self.dtype).view(shape)

    def read_all(self) -> Tensor:
        """Read all rows."""
        return self.read(torch.arange(self.shape[0]))


def _numpy_header(file: Path, name: str | None) -> StoredArray:
    require(name is None, "name", f"be left out for {file}, which has none", name)
    array = opened_array(file)
    rule = "be in C order, row by row"
    require(array.flags.c_contiguous, str(file), rule, "Fortran order")
    try:
        # Refuses objects, texts and numbers in the other byte order.
        kind = torch.from_numpy(np.empty(0, array.dtype)).dtype
    except (TypeError, ValueError):
        rule = "hold numbers of a type that torch has, in this machine's byte order"
        raise ValueError(f"{file} must {rule}, got {array.dtype.str}") from None
    return StoredArray(file, array.offset, array.shape, kind)


def _safetensors_header(file: Path, name: str | None) -> StoredArray:
    with opened(file) as tensors:
        names = tensors.keys()
        wanted = names[0] if name is None and len(names) == 1 else name
        if wanted is None or wanted not in names:
            said = f"name must be one of {sorted(names)} in {file}, got {name!r}"
            raise ValueError(said)
        mapped = tensors.get_tensor(wanted)
    return StoredArray(file, start_of(file, wanted), tuple(mapped.shape), mapped.dtype)


def _contents(path: Path) -> str:
    """Return the SHA-256 of a file, computed once unless the file changes."""
    about = path.stat()
    return _digest(path, about.st_size, about.st_mtime_ns, about.st_ino)


@lru_cache
def _digest(path: Path, *_about: int) -> str:
    return file_digest(path)


File = str | Path | StoredArray
Channels = Literal["first", "last"]


@final
class ArraysOnDisk(StoredData):
    """A map-style data set in ``.npy`` or ``.safetensors`` files, read row by row.

    It trains and tests to the same bits as :class:`Arrays` of the same numbers, in any
    order, with stratified batches and with resuming. What a process holds of it are the
    targets and a few batches.

    A run folder records the SHA-256 of each file, for which it is read through once.

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
        self.targets = _held_targets(targets)
        self.normalize, self.classes, self.channels = normalize, classes, channels
        self._named = isinstance(inputs, Mapping)
        files = inputs if isinstance(inputs, Mapping) else {"": inputs}
        self._files = {name: _opened(file) for name, file in files.items()}
        self._rows = torch.arange(len(self.targets))
        require(len(files) > 0, "inputs", "name at least one file", files)
        rule = f"hold as many samples as there are targets ({len(self)})"
        for opened_file in self._files.values():
            shape = opened_file.shape
            require(shape[0] == len(self), str(opened_file.path), rule, shape)

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

    def subset(self, index: Tensor | Sequence[int]) -> Self:
        """Return some of the samples, without reading them.

        Args:
            index: Their positions.

        Returns:
            A new data set, in the order of ``index``.
        """
        rows = torch.as_tensor(index)
        part = copy(self)
        part.targets, part._rows = self.targets[rows], self._rows[rows]
        return part

    def identity(self) -> dict[str, Any]:
        """Return a hash of the files' contents, the rows taken and the targets.

        Returns:
            The hash, and where the channels are.
        """
        digest = hashlib.sha256()
        for name, file in sorted(self._files.items()):
            about = f"{name} {file.start} {file.shape} {file.dtype} "
            digest.update((about + _contents(file.path)).encode())
        for tensor in (self._rows, self.targets):
            digest.update(raw_bytes(tensor).numpy().data)
        return {"sha256": digest.hexdigest(), "channels": self.channels}

    def _read(self, file: StoredArray, rows: Tensor) -> Tensor:
        values = file.read(rows)
        if self.channels == "last" and values.ndim == 4:
            return values.permute(0, 3, 1, 2).contiguous()
        return values


def _opened(file: File) -> StoredArray:
    return file if isinstance(file, StoredArray) else StoredArray.open(file)


def _held_targets(targets: File | Tensor) -> Tensor:
    """Read the targets, which are held; whole numbers become int64."""
    if not isinstance(targets, Tensor):
        targets = _opened(targets).read_all()
    if targets.ndim == 2 and targets.shape[1] == 1:
        targets = targets[:, 0]
    return targets if targets.is_floating_point() else targets.long()
