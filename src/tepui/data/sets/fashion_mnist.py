"""Fashion-MNIST: 60 000 training and 10 000 test images of clothes, 28×28 gray pixels.

Four idx files, plain or compressed. Debian's package ``dataset-fashion-mnist`` puts
them where this class finds them.

References:
    Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a Novel Image Dataset for
    Benchmarking Machine Learning Algorithms.
"""

from pathlib import Path
from typing import final

import torch

from tepui.core.checks import require
from tepui.data.arrays import Normalize
from tepui.data.files.idx import read_idx
from tepui.data.files.origins import Download, Origin
from tepui.data.files.published_arrays import Contents, PublishedArrays

SAMPLES = {True: 60_000, False: 10_000}
_CLASSES = (
    *("T-shirt/top", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
)
_SITE = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/"


def _download(name: str, md5: str, size: int) -> Download:
    url = f"{_SITE}fashion/{name}-ubyte.gz"
    return Download(url, f"md5:{md5}", "the authors' page", size)


@final
class FashionMNIST(PublishedArrays):
    """Fashion-MNIST: ten classes of clothes, 7000 images each.

    Images are bytes of shape ``(samples, 1, 28, 28)``, labels int64; the training
    images' mean and standard deviation normalize them. Arguments as in
    :class:`tepui.data.files.published_arrays.PublishedArrays`.
    """

    origin = Origin(
        "Fashion-MNIST, 70 000 gray images of 28 px in 10 classes",
        ("fashion-mnist", "FashionMNIST/raw"),
        (
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
    normalization = Normalize((0.2860,), (0.3530,))

    def _read(self, folder: Path, train: bool) -> Contents:
        part = "train" if train else "t10k"
        images = read_idx(folder / f"{part}-images-idx3-ubyte")
        labels = read_idx(folder / f"{part}-labels-idx1-ubyte")
        shape = (SAMPLES[train], 28, 28)
        require(images.shape == shape, str(folder), f"hold {shape}", images.shape)
        rule = f"hold {SAMPLES[train]} labels below 10"
        right = labels.shape == shape[:1] and labels.max() < 10
        require(bool(right), str(folder), rule, labels.shape)
        digits = torch.from_numpy(labels).long()
        return torch.from_numpy(images)[:, None], digits, _CLASSES
