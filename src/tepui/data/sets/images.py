"""Small images in tensors: digits, house numbers, clothes, and noise.

Digits ship with scikit-learn; the library's own split of their 1797 images is drawn
from tepui's generators and does not change with scikit-learn's. SVHN lies in two files
in MATLAB's format, where the digit 0 has the label 10, and Fashion-MNIST in four idx
files, plain or compressed. Noise is what no model should recognize: every label is -1,
which every loss and accuracy refuses.

References:
    Alpaydin and Kaynak (1998), Optical Recognition of Handwritten Digits, UCI.
    Netzer, Wang, Coates, Bissacco, Wu and Ng (2011), Reading Digits in Natural Images
    with Unsupervised Feature Learning, NIPS Workshop on Deep Learning.
    Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a Novel Image Dataset for
    Benchmarking Machine Learning Algorithms.
"""

import gzip
import math
import zlib
from pathlib import Path
from typing import ClassVar, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.limits import check_limit
from tepui.core.seeding import generator
from tepui.core.types import check_types
from tepui.data.arrays import Arrays, Normalize
from tepui.data.image_files import image_shape
from tepui.data.labels import NO_LABEL
from tepui.data.published import (
    Contents,
    Origin,
    PublishedArrays,
    downloads,
    require_file,
)

TEST_SAMPLES = 360
MEAN, STD = 0.3053, 0.3761


@final
class Digits(Arrays):
    """Scikit-learn's digits with a fixed, stratified split.

    Images are ``(samples, 1, 8, 8)`` of float32 in ``[0, 1]``, labels int64; the
    training images' mean and standard deviation normalize them.

    Args:
        train: The 1437 training images if true, else the 360 test images.

    Example:
        >>> digits = Digits(train=False)
        >>> len(digits), tuple(digits.inputs.shape), digits.classes[:3]
        (360, (360, 1, 8, 8), ('0', '1', '2'))
    """

    def __init__(self, train: bool = True) -> None:
        from sklearn.datasets import load_digits

        bunch = load_digits()
        labels = torch.as_tensor(bunch.target, dtype=torch.int64)
        images = torch.as_tensor(bunch.images, dtype=torch.float32).div_(16)[:, None]
        classes = tuple(str(name) for name in bunch.target_names)
        rows = _test_mask(labels) == (not train)
        normalize = Normalize((MEAN,), (STD,))
        super().__init__(images[rows], labels[rows], normalize, classes)


def _test_mask(labels: Tensor) -> Tensor:
    """Take every ``n / 360``-th sample of a random order sorted by class."""
    order = torch.randperm(len(labels), generator=generator(0, "digits", "split"))
    order = order[labels[order].argsort(stable=True)]
    mask = torch.zeros(len(labels), dtype=torch.bool)
    mask[order[torch.arange(TEST_SAMPLES) * len(labels) // TEST_SAMPLES]] = True
    return mask


_SVHN = """
train 182 435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8
test 64 cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b
"""


@final
class SVHN(PublishedArrays):
    """SVHN, 99 289 images of 32 px in 10 classes.

    Images are bytes of shape ``(samples, 3, 32, 32)``, labels the digits, int64.
    Arguments as in :class:`tepui.data.published.PublishedArrays`.
    """

    origin = Origin(
        ("svhn",),
        downloads("https://ufldl.stanford.edu/housenumbers/{}_32x32.mat", _SVHN),
    )
    normalization = Normalize((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970))
    shape = (3, 32, 32)
    num_samples: ClassVar[dict[bool, int]] = {True: 73_257, False: 26_032}

    def _read(self, folder: Path, train: bool) -> Contents:
        from scipy.io import loadmat, whosmat

        path = folder / f"{'train' if train else 'test'}_32x32.mat"
        require_file(path)
        try:
            with path.open("rb") as file:
                sizes = [math.prod(shape) for _, shape, _ in whosmat(file)]
                check_limit("unpacked_bytes", sum(sizes), path)
                arrays = loadmat(file, variable_names=("X", "y"))
        except Exception as error:  # a damaged file can fail in any way
            raise ValueError(f"{path} must be a valid .mat file: {error}") from error
        held = {"X", "y"} <= arrays.keys() and arrays["X"].ndim == 4
        require(held, str(path), "hold images X and labels y", sorted(arrays))
        labels = arrays["y"].ravel()
        from_1 = labels.min(initial=1) >= 1 and labels.max(initial=1) <= 10
        require(bool(from_1), str(path), "hold labels from 1 to 10", labels[:10])
        rows = np.ascontiguousarray(arrays["X"].transpose(3, 2, 0, 1))
        return rows, labels.astype(np.int64) % 10, tuple("0123456789")


_CLASSES = (
    *("T-shirt/top", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
)
_SITE = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/"
_FASHION = """
train-images-idx3 26.4 3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84
train-labels-idx1 .03 a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845
t10k-images-idx3 4.4 346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073
t10k-labels-idx1 .005 67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5
"""


@final
class FashionMNIST(PublishedArrays):
    """Fashion-MNIST, 70 000 gray images of 28 px in 10 classes.

    Images are bytes of shape ``(samples, 1, 28, 28)``, labels int64; the training
    images' mean and standard deviation normalize them. Arguments as in
    :class:`tepui.data.published.PublishedArrays`.
    """

    origin = Origin(
        ("fashion-mnist", "FashionMNIST/raw"),
        downloads(f"{_SITE}fashion/{{}}-ubyte.gz", _FASHION),
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
    start = 4 + 4 * axes
    try:
        with file.open("rb") if file is path else gzip.open(file) as stream:
            head = stream.read(start)
            fits = head[:4] == bytes([0, 0, 8, axes]) and len(head) == start
            rule = f"be an idx file of bytes with {axes} axes"
            require(fits, str(file), rule, head)
            shape = tuple(np.frombuffer(head[4:], dtype=">u4").tolist())
            size = math.prod(shape)
            check_limit("unpacked_bytes", size, file)
            content = bytearray(stream.read(size + 1))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{file} must be a valid gzip file: {error}") from error
    rule = f"hold {size} values of shape {shape}"
    require(len(content) == size, str(file), rule, len(content))
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


@final
class UniformNoise(Arrays):
    """Every pixel an independent byte, all equally likely.

    Args:
        num_samples: How many images.
        shape: Channels, height and width.
        like: A data set whose shape of images and normalization to take instead.
        seed: Same seed, same noise.

    Raises:
        ValueError: If ``num_samples`` is not positive, or ``like`` holds no images.

    Example:
        >>> UniformNoise(num_samples=2, shape=(1, 8, 8)).inputs.shape
        torch.Size([2, 1, 8, 8])
    """

    def __init__(
        self,
        num_samples: int = 10_000,
        shape: tuple[int, int, int] = (3, 32, 32),
        like: Arrays | None = None,
        seed: int = 0,
    ) -> None:
        check_types(UniformNoise.__init__, locals())
        require(num_samples > 0, "num_samples", "be positive", num_samples)
        found = shape if like is None else image_shape(like) or ()
        require(len(found) == 3, "like", "hold images", type(like).__name__)
        size = num_samples, *found
        stream = generator(seed, "noise", "uniform")
        images = torch.randint(256, size, generator=stream, dtype=torch.uint8)
        labels = torch.full((num_samples,), NO_LABEL)
        super().__init__(images, labels, None if like is None else like.normalize)
