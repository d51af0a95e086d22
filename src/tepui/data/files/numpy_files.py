"""What a ``.npy`` file claims to hold, compared with its size before it is read."""

import math
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from torch import Tensor

from tepui.core.checks import require
from tepui.data.arrays import to_tensor


class NpyHeader:
    """Shape, order and type of the array in a ``.npy`` file.

    Args:
        stream: The file, at its beginning; afterwards at its first number.
        file: Its name, for errors.

    Raises:
        ValueError: If it is something else, or holds objects.
    """

    def __init__(self, stream: BinaryIO, file: object) -> None:
        try:
            version = np.lib.format.read_magic(stream)
            read = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[version]
            shape, self.columns_first, self.dtype = read(stream)
        except Exception as error:  # a damaged file can fail in any way
            raise ValueError(f"{file} must be a .npy file, but: {error}") from error
        self.shape: tuple[int, ...] = tuple(shape)
        self.start = stream.tell()

    def check_size(self, size: int, file: object) -> None:
        """Raise unless a file of so many bytes can hold the array."""
        end = self.start + math.prod(self.shape) * self.dtype.itemsize
        if self.dtype.hasobject:
            raise ValueError(f"{file} must hold numbers, got objects")
        if end > size or min(self.shape, default=0) < 0:
            raise ValueError(
                f"{file} must hold {end} bytes, as its header says, got {size}: it was "
                "cut short or is damaged"
            )


def rows_in(path: Path) -> Tensor:
    """Return the rows of numbers in a ``.npy`` file; floats as torch has them."""
    array = opened_array(path)
    fits = array.ndim > 1 and len(array) > 0 and array.dtype.kind in "uifb"
    rule = "hold numbers, samples along the first axis"
    require(fits, str(path), rule, f"{array.dtype} of shape {array.shape}")
    return to_tensor(str(path), array)


def opened_array(path: Path) -> npt.NDArray[Any]:
    """Return the memory-mapped array of a ``.npy`` file; objects are refused."""
    try:
        with path.open("rb") as stream:
            NpyHeader(stream, path.name).check_size(path.stat().st_size, path.name)
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a damaged file can fail in any way
        raise ValueError(f"{path} must be a valid .npy file: {error}") from error
    return array
