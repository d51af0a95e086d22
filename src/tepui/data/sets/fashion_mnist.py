"""Fashion-MNIST: 60 000 training and 10 000 test images of clothes, 28×28 gray pixels.

Four idx files, plain or compressed. Debian's package ``dataset-fashion-mnist`` puts
them where this class finds them.

References:
    Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a Novel Image Dataset for
    Benchmarking Machine Learning Algorithms.
"""

import gzip
import math
import zlib
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from tepui.core.checks import require
from tepui.core.limits import limits_here
from tepui.data.arrays import Normalize
from tepui.data.files.origins import Download, Origin, require_file
from tepui.data.files.published_arrays import Contents, PublishedArrays

_CLASSES = (
    *("T-shirt/top", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
)
_AT_ONCE = 2**20  # bytes
_SITE = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/"


def _file(name: str, md5: str, size: int, sha256: str) -> Download:
    url = f"{_SITE}fashion/{name}-ubyte.gz"
    return Download(url, f"md5:{md5}", "the authors' page", size, sha256)


@final
class FashionMNIST(PublishedArrays):
    """Fashion-MNIST, 70 000 gray images of 28 px in 10 classes.

    Images are bytes of shape ``(samples, 1, 28, 28)``, labels int64; the training
    images' mean and standard deviation normalize them. Arguments as in
    :class:`tepui.data.files.published_arrays.PublishedArrays`.
    """

    origin = Origin(
        ("fashion-mnist", "FashionMNIST/raw"),
        (
            _file(
                "train-images-idx3",
                "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                26_422_000,
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            ),
            _file(
                "train-labels-idx1",
                "25c81989df183df01b3e8a0aad5dffbe",
                29_500,
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            ),
            _file(
                "t10k-images-idx3",
                "bef4ecab320f06d8554ea6380940ec79",
                4_422_000,
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            ),
            _file(
                "t10k-labels-idx1",
                "bb300cfdad3c16e7a12a480ee83cd310",
                5_100,
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ),
        ),
        by_hand="On Debian: apt install dataset-fashion-mnist.",
        elsewhere=("/usr/share/datasets/fashion-mnist",),
    )
    normalization = Normalize((0.2860,), (0.3530,))
    shape = (1, 28, 28)
    num_samples: ClassVar[dict[bool, int]] = {True: 60_000, False: 10_000}

    def _read(self, folder: Path, train: bool) -> Contents:
        part = "train" if train else "t10k"
        images = read_idx(folder / f"{part}-images-idx3-ubyte", axes=3)
        labels = read_idx(folder / f"{part}-labels-idx1-ubyte", axes=1)
        return images[:, None], labels, _CLASSES


def read_idx(path: Path, axes: int) -> npt.NDArray[np.uint8]:
    """Read an array of bytes from an idx file, plain or compressed."""
    file = path if path.is_file() else path.with_name(f"{path.name}.gz")
    require_file(file)
    try:
        with file.open("rb") if file is path else gzip.open(file) as stream:
            return _read_idx(stream, file, axes)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{file} must be a valid gzip file: {error}") from error


def _read_idx(stream: Any, file: Path, axes: int) -> npt.NDArray[np.uint8]:
    start = 4 + 4 * axes
    head = stream.read(start)
    fits = head[:4] == bytes([0, 0, 8, axes]) and len(head) == start
    rule = f"be an idx file of bytes with {axes} axes"
    require(fits, str(file), rule, head)
    shape = tuple(np.frombuffer(head[4:], dtype=">u4").tolist())
    size = math.prod(shape)
    limits_here().check("unpacked_bytes", size, file)
    content = bytearray()
    while len(content) <= size and (part := stream.read(_AT_ONCE)):
        content += part
    rule = f"hold {size} values of shape {shape}"
    require(len(content) == size, str(file), rule, len(content))
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)
