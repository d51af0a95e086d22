"""Fashion-MNIST: 60 000 training and 10 000 test images of clothes, 28×28 gray pixels.

Four idx files, plain or compressed. Debian's package ``dataset-fashion-mnist`` puts
them where this class finds them.

References:
    Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a Novel Image Dataset for
    Benchmarking Machine Learning Algorithms.
"""

from pathlib import Path
from typing import ClassVar, final

import torch

from tepui.core.checks import require
from tepui.data.arrays import Arrays, Normalize
from tepui.data.files.idx import read_idx
from tepui.data.files.installing import located
from tepui.data.files.sources import Download, Source

SAMPLES = {True: 60_000, False: 10_000}
_SITE = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/"
_CLASSES = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)


def _download(name: str, md5: str, size: int) -> Download:
    url = f"{_SITE}fashion/{name}-ubyte.gz"
    return Download(url, f"md5:{md5}", "the authors' page", size)


@final
class FashionMNIST(Arrays):
    """Fashion-MNIST: ten classes of clothes, 7000 images each.

    Images are bytes of shape ``(samples, 1, 28, 28)``, labels int64; the training
    images' mean and standard deviation normalize them.

    Args:
        root: The data folder, or the set's own; see :mod:`tepui.data.files.sources`.
        train: The 60 000 training images if true, else the 10 000 test images.
        download: Fetch the set if it is not there.

    Raises:
        FileNotFoundError: If a file is not there; the message says how to get it.
        ValueError: If a file is truncated, foreign or of another size.
    """

    source: ClassVar[Source] = Source(
        about="Fashion-MNIST, 70 000 gray images of 28 px in 10 classes",
        folders=("fashion-mnist", "FashionMNIST/raw"),
        downloads=(
            _download(
                "train-images-idx3", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_422_000
            ),
            _download("train-labels-idx1", "25c81989df183df01b3e8a0aad5dffbe", 29_500),
            _download(
                "t10k-images-idx3", "bef4ecab320f06d8554ea6380940ec79", 4_422_000
            ),
            _download("t10k-labels-idx1", "bb300cfdad3c16e7a12a480ee83cd310", 5_100),
        ),
        by_hand="On Debian: apt install dataset-fashion-mnist.",
        elsewhere=("/usr/share/datasets/fashion-mnist",),
    )
    normalization: ClassVar[Normalize] = Normalize((0.2860,), (0.3530,))

    def __init__(
        self,
        root: str | Path | None = None,
        train: bool = True,
        download: bool = False,
    ) -> None:
        folder = located("FashionMNIST", self.source, root, download)
        part = "train" if train else "t10k"
        images = read_idx(folder / f"{part}-images-idx3-ubyte")
        labels = read_idx(folder / f"{part}-labels-idx1-ubyte")
        shape = (SAMPLES[train], 28, 28)
        require(images.shape == shape, str(folder), f"hold {shape}", images.shape)
        rule = f"hold {SAMPLES[train]} labels below 10"
        right = labels.shape == shape[:1] and labels.max() < 10
        require(bool(right), str(folder), rule, labels.shape)
        super().__init__(
            torch.from_numpy(images)[:, None],
            torch.from_numpy(labels).long(),
            self.normalization,
            _CLASSES,
        )
