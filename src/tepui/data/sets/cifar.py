"""CIFAR-10 and CIFAR-100: 50 000 training and 10 000 test images of 32×32 pixels.

Read from the python version (``cifar-10-batches-py``, ``cifar-100-python``) or the
binary version (``cifar-10-batches-bin``, ``cifar-100-binary``), whichever is there. The
constants that normalize are those of SharpBalance's released code. Its fixed division
of the training images into 45 000 and 5 000 is an index file; ``tepui.data.split_at``
takes it, and ``tepui.data.split(dataset, 0.1, seed=…)`` draws one like it.

References:
    Krizhevsky (2009), Learning Multiple Layers of Features from Tiny Images.
"""

from pathlib import Path
from typing import ClassVar, NamedTuple, final

import numpy as np
import numpy.typing as npt
import torch

from tepui.core.checks import require
from tepui.data.arrays import Arrays, Normalize
from tepui.data.files.installing import located
from tepui.data.files.sources import Download, Source, require_file
from tepui.data.sets.cifar_pickles import read_cifar_pickle

ROWS_PER_FILE = 10_000
_SIDE = 32
_PIXELS = 3 * _SIDE * _SIDE
_SITE = "https://www.cs.toronto.edu/~kriz/"
_AUTHOR = "the authors' page"

Bytes = npt.NDArray[np.uint8]


class _Version(NamedTuple):
    """How one version of CIFAR is divided into files.

    Attributes:
        folder: Its folder.
        train: The files of the training part.
        test: The file of the test part.
        parts: How many times ``ROWS_PER_FILE`` images each training file holds.
        labels: Label bytes of a binary row, or the key of a pickle's labels.
        names: The file of the classes' names, and its key in a pickle.
    """

    folder: str
    train: tuple[str, ...]
    test: str
    parts: int
    labels: int | str
    names: tuple[str, str | None]


_CIFAR10 = (
    _Version(
        "cifar-10-batches-py",
        tuple(f"data_batch_{number}" for number in range(1, 6)),
        "test_batch",
        1,
        "labels",
        ("batches.meta", "label_names"),
    ),
    _Version(
        "cifar-10-batches-bin",
        tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
        "test_batch.bin",
        1,
        1,
        ("batches.meta.txt", None),
    ),
)
_CIFAR100 = (
    _Version(
        "cifar-100-python",
        ("train",),
        "test",
        5,
        "fine_labels",
        ("meta", "fine_label_names"),
    ),
    _Version(
        "cifar-100-binary",
        ("train.bin",),
        "test.bin",
        5,
        2,
        ("fine_label_names.txt", None),
    ),
)


@final
class CIFAR10(Arrays):
    """CIFAR-10: ten classes, 6000 images each.

    Images are bytes of shape ``(samples, 3, 32, 32)``, labels int64.

    Args:
        root: The data folder, or the set's own; see :mod:`tepui.data.files.sources`.
        train: The 50 000 training images if true, else the 10 000 test images.
        download: Fetch the python version if nothing is there.

    Raises:
        FileNotFoundError: If a file is not there; the message says how to get it.
        ValueError: If a file is truncated, foreign or of another size.
    """

    source: ClassVar[Source] = Source(
        about="CIFAR-10, 60 000 images of 32 px in 10 classes",
        folders=tuple(version.folder for version in _CIFAR10),
        downloads=(
            Download(
                _SITE + "cifar-10-python.tar.gz",
                "md5:c58f30108f718f92721af3b95e74349a",
                _AUTHOR,
                170_000_000,
            ),
        ),
    )
    normalization: ClassVar[Normalize] = Normalize(
        (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
    )

    def __init__(
        self,
        root: str | Path | None = None,
        train: bool = True,
        download: bool = False,
    ) -> None:
        folder = located("CIFAR10", self.source, root, download)
        images, labels, names = _read(folder, _CIFAR10, train, num_classes=10)
        super().__init__(images, labels, self.normalization, names)


@final
class CIFAR100(Arrays):
    """CIFAR-100: a hundred classes, 600 images each.

    Images are bytes of shape ``(samples, 3, 32, 32)``; labels are the fine ones, int64.

    Args:
        root: The data folder, or the set's own; see :mod:`tepui.data.files.sources`.
        train: The 50 000 training images if true, else the 10 000 test images.
        download: Fetch the python version if nothing is there.

    Raises:
        FileNotFoundError: If a file is not there; the message says how to get it.
        ValueError: If a file is truncated, foreign or of another size.
    """

    source: ClassVar[Source] = Source(
        about="CIFAR-100, 60 000 images of 32 px in 100 classes",
        folders=tuple(version.folder for version in _CIFAR100),
        downloads=(
            Download(
                _SITE + "cifar-100-python.tar.gz",
                "md5:eb9058c3a382ffc7106e4002c42a8d85",
                _AUTHOR,
                169_000_000,
            ),
        ),
    )
    normalization: ClassVar[Normalize] = Normalize(
        (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)
    )

    def __init__(
        self,
        root: str | Path | None = None,
        train: bool = True,
        download: bool = False,
    ) -> None:
        folder = located("CIFAR100", self.source, root, download)
        images, labels, names = _read(folder, _CIFAR100, train, num_classes=100)
        super().__init__(images, labels, self.normalization, names)


def _read(
    folder: Path, versions: tuple[_Version, ...], train: bool, num_classes: int
) -> tuple[torch.Tensor, torch.Tensor, tuple[str, ...]]:
    """Return images, labels and class names of one part."""
    version = next(item for item in versions if item.folder == folder.name)
    files = version.train if train else (version.test,)
    rows = ROWS_PER_FILE * (version.parts if train else 1)
    images = np.empty((len(files) * rows, _PIXELS), dtype=np.uint8)
    labels = np.empty(len(images), dtype=np.int64)
    for number, file in enumerate(files):
        part = slice(number * rows, (number + 1) * rows)
        images[part], labels[part] = _read_file(folder / file, version, rows)
    names = _class_names(folder, version)
    require(
        len(names) == num_classes, str(folder), f"name {num_classes} classes", names
    )
    high = int(labels.max())
    require(high < num_classes, str(folder), f"label below {num_classes}", high)
    shaped = torch.from_numpy(images).view(-1, 3, _SIDE, _SIDE)
    return shaped, torch.from_numpy(labels), names


def _read_file(
    path: Path, version: _Version, rows: int
) -> tuple[Bytes, npt.NDArray[np.int64]]:
    require_file(path)
    if isinstance(version.labels, int):
        return _read_binary(path, version.labels, rows)
    return _read_pickle(path, version.labels, rows)


def _read_binary(
    path: Path, label_bytes: int, rows: int
) -> tuple[Bytes, npt.NDArray[np.int64]]:
    """Read rows of label bytes, of which the last counts, and pixels."""
    size = rows * (label_bytes + _PIXELS)
    found = path.stat().st_size
    require(found == size, str(path), f"hold {rows} images in {size} bytes", found)
    table = np.fromfile(path, dtype=np.uint8).reshape(rows, -1)
    return table[:, label_bytes:], table[:, label_bytes - 1].astype(np.int64)


def _read_pickle(
    path: Path, key: str, rows: int
) -> tuple[Bytes, npt.NDArray[np.int64]]:
    found = read_cifar_pickle(path)
    for name in ("data", key):
        require(name in found, str(path), f"hold {name!r}", sorted(found))
    images, labels = found["data"], np.asarray(found[key])
    shape = getattr(images, "shape", None)
    rule = f"hold {rows} images of {_PIXELS} bytes"
    require(shape == (rows, _PIXELS), str(path), rule, shape)
    whole = labels.shape == (rows,) and labels.dtype.kind in "iu" and labels.min() >= 0
    require(bool(whole), str(path), f"hold {rows} labels", labels.shape)
    return images, labels.astype(np.int64)


def _class_names(folder: Path, version: _Version) -> tuple[str, ...]:
    file, key = version.names
    require_file(folder / file)
    if key is None:
        return tuple((folder / file).read_text().split())
    found = read_cifar_pickle(folder / file)
    require(key in found, str(folder / file), f"hold {key!r}", sorted(found))
    return tuple(str(name) for name in found[key])
