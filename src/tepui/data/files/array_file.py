"""Your own arrays: numpy files with a training and a test part.

``path`` is an ``.npz`` file with the arrays ``x_train``, ``y_train``, ``x_test`` and
``y_test``, or a folder with an ``.npy`` file for each. Nothing is ever unpickled.
"""

import zipfile
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.limits import limits_here
from tepui.data.arrays import Arrays, Normalize, to_tensor
from tepui.data.files.published import require_file

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
    described = f"{values.dtype} of shape {values.shape}"
    require(fits, f"y_{part}", rule, described)
    return torch.from_numpy(values.astype(np.int64 if whole else np.float32))


def _load(path: Path, name: str) -> npt.NDArray[Any]:
    """Return one array of an archive or a folder; objects are refused."""
    file = path / f"{name}.npy" if path.is_dir() else path
    require_file(file)
    try:
        if zipfile.is_zipfile(file):
            return _unpacked(file, name)
        rule = "be an .npz file, or a folder with an .npy file for each array"
        require(path.is_dir(), str(path), rule, "a lone array")
        return np.array(opened_array(file))
    except Exception as error:  # a damaged file can fail in any way
        raise ValueError(f"{name} must be an array in {file}: {error}") from error


def _unpacked(file: Path, name: str) -> npt.NDArray[Any]:
    """Return one array of an archive, after a look at what it claims to hold."""
    with zipfile.ZipFile(file) as archive:
        limits = limits_here()
        limits.check("archive_members", len(archive.namelist()), file)
        held = [member.removesuffix(".npy") for member in archive.namelist()]
        require(name in held, str(file), f"hold {name!r}", held[:20])
        size = archive.getinfo(f"{name}.npy").file_size
        limits.check("unpacked_bytes", size, file)
        with archive.open(f"{name}.npy") as stream:
            return np.lib.format.read_array(stream)


def _inputs(array: npt.NDArray[Any], channels: str | None) -> torch.Tensor:
    numeric = array.ndim > 1 and array.dtype.kind in "uifb"
    described = f"{array.dtype} of shape {array.shape}"
    require(numeric, "x", "hold numbers, samples along the first axis", described)
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
