"""CIFAR-10 and CIFAR-100: 50 000 training and 10 000 test images of 32×32 pixels.

Read from the python version (``cifar-10-batches-py``, ``cifar-100-python``) or the
binary version (``cifar-10-batches-bin``, ``cifar-100-binary``), whichever is there; a
download fetches the python version. The normalization constants are those of
SharpBalance's released code. Its fixed split of the training images into 45 000 and
5 000 is an index file; ``tepui.data.split_at`` takes it, and
``tepui.data.split(dataset, 0.1, seed=…)`` draws one like it.

References:
    Krizhevsky (2009), Learning Multiple Layers of Features from Tiny Images.
"""

from abc import ABC
from pathlib import Path
from typing import ClassVar, NamedTuple, final

import numpy as np
import numpy.typing as npt
import torch

from tepui.core.checks import require
from tepui.data.arrays import Normalize
from tepui.data.files.origins import Download, Origin, require_file
from tepui.data.files.published_arrays import Contents, PublishedArrays
from tepui.data.sets.cifar_pickles import read_cifar_pickle

ROWS_PER_FILE = 10_000
_SIDE = 32
_PIXELS = 3 * _SIDE * _SIDE

Bytes = npt.NDArray[np.uint8]
Rows = tuple[Bytes, npt.NDArray[np.int64]]


class _Version(NamedTuple):
    """How one version of CIFAR is divided into files.

    Attributes:
        folder: Its folder.
        train: The files of the training part.
        test: The file of the test part.
        parts: How many times ``ROWS_PER_FILE`` images each training file holds.
        labels: Label bytes of a binary row, or the key of a pickle's labels.
        names: The file of the class names.
        names_key: Its key in a pickle; None in a text file.
    """

    folder: str
    train: tuple[str, ...]
    test: str
    parts: int
    labels: int | str
    names: str
    names_key: str | None = None


_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))


def _origin(
    num_classes: int, md5: str, size: int, versions: tuple[_Version, ...]
) -> Origin:
    url = f"https://www.cs.toronto.edu/~kriz/cifar-{num_classes}-python.tar.gz"
    return Origin(
        f"CIFAR-{num_classes}, 60 000 images of 32 px in {num_classes} classes",
        tuple(version.folder for version in versions),
        (Download(url, f"md5:{md5}", "the authors' page", size),),
    )


class _CIFAR(PublishedArrays, ABC):
    """Either set; the folder's name tells the version."""

    num_classes: ClassVar[int]
    versions: ClassVar[tuple[_Version, ...]]

    def _read(self, folder: Path, train: bool) -> Contents:
        version = next(item for item in self.versions if item.folder == folder.name)
        files = version.train if train else (version.test,)
        rows = ROWS_PER_FILE * (version.parts if train else 1)
        images = np.empty((len(files) * rows, _PIXELS), dtype=np.uint8)
        labels = np.empty(len(images), dtype=np.int64)
        for number, file in enumerate(files):
            part = slice(number * rows, (number + 1) * rows)
            images[part], labels[part] = _read_file(folder / file, version, rows)
        names = _class_names(folder / version.names, version.names_key)
        count = self.num_classes
        require(len(names) == count, str(folder), f"name {count} classes", names)
        high = int(labels.max())
        require(high < count, str(folder), f"hold labels below {count}", high)
        shaped = torch.from_numpy(images).view(-1, 3, _SIDE, _SIDE)
        return shaped, torch.from_numpy(labels), names


@final
class CIFAR10(_CIFAR):
    """CIFAR-10: ten classes, 6000 images each.

    Images are bytes of shape ``(samples, 3, 32, 32)``, labels int64. Arguments as in
    :class:`tepui.data.files.published_arrays.PublishedArrays`.
    """

    num_classes = 10
    versions = (
        _Version(
            "cifar-10-batches-py",
            _BATCHES,
            "test_batch",
            1,
            "labels",
            "batches.meta",
            "label_names",
        ),
        _Version(
            "cifar-10-batches-bin",
            tuple(f"{name}.bin" for name in _BATCHES),
            "test_batch.bin",
            1,
            1,
            "batches.meta.txt",
        ),
    )
    origin = _origin(10, "c58f30108f718f92721af3b95e74349a", 170_000_000, versions)
    normalization = Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))


@final
class CIFAR100(_CIFAR):
    """CIFAR-100: a hundred classes, 600 images each.

    Images are bytes of shape ``(samples, 3, 32, 32)``; labels are the fine ones, int64.
    Arguments as in :class:`tepui.data.files.published_arrays.PublishedArrays`.
    """

    num_classes = 100
    versions = (
        _Version(
            "cifar-100-python",
            ("train",),
            "test",
            5,
            "fine_labels",
            "meta",
            "fine_label_names",
        ),
        _Version(
            "cifar-100-binary",
            ("train.bin",),
            "test.bin",
            5,
            2,
            "fine_label_names.txt",
        ),
    )
    origin = _origin(100, "eb9058c3a382ffc7106e4002c42a8d85", 169_000_000, versions)
    normalization = Normalize((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))


def _read_file(path: Path, version: _Version, rows: int) -> Rows:
    require_file(path)
    if isinstance(version.labels, int):
        return _read_binary(path, version.labels, rows)
    return _read_pickle(path, version.labels, rows)


def _read_binary(path: Path, label_bytes: int, rows: int) -> Rows:
    """Read rows of label bytes, of which the last counts, and pixels."""
    size = rows * (label_bytes + _PIXELS)
    found = path.stat().st_size
    require(found == size, str(path), f"hold {rows} images in {size} bytes", found)
    table = np.fromfile(path, dtype=np.uint8).reshape(rows, -1)
    return table[:, label_bytes:], table[:, label_bytes - 1].astype(np.int64)


def _read_pickle(path: Path, key: str, rows: int) -> Rows:
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


def _class_names(path: Path, key: str | None) -> tuple[str, ...]:
    require_file(path)
    if key is None:
        return tuple(path.read_text().split())
    found = read_cifar_pickle(path)
    require(key in found, str(path), f"hold {key!r}", sorted(found))
    return tuple(str(name) for name in found[key])
