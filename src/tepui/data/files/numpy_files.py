"""Arrays of numbers in ``.npy`` files, mapped and never unpickled."""

from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from tepui.core.checks import require
from tepui.data.arrays import to_tensor


def rows_in(path: Path) -> Tensor:
    """Return the rows of numbers in a ``.npy`` file; floats as torch has them."""
    array = opened_array(path)
    fits = array.ndim > 1 and len(array) > 0 and array.dtype.kind in "uifb"
    rule = "hold numbers, samples along the first axis"
    require(fits, str(path), rule, f"{array.dtype} of shape {array.shape}")
    return to_tensor(str(path), array)


def opened_array(path: Path) -> "np.memmap[Any, Any]":
    """Return the memory-mapped array of a ``.npy`` file; objects are refused."""
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # a damaged file can fail in any way
        raise ValueError(f"{path} must be a valid .npy file: {error}") from error
