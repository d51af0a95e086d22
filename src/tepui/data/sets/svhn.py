"""SVHN: house numbers, 73 257 training and 26 032 test images of 32×32 pixels.

Two files in MATLAB's format, ``train_32x32.mat`` and ``test_32x32.mat``, where the
digit 0 has the label 10.

References:
    Netzer, Wang, Coates, Bissacco, Wu and Ng (2011), Reading Digits in Natural Images
    with Unsupervised Feature Learning, NIPS Workshop on Deep Learning.
"""

import math
from pathlib import Path
from typing import ClassVar, final

import numpy as np

from tepui.core.checks import require
from tepui.core.limits import limits_here
from tepui.data.arrays import Normalize
from tepui.data.files.origins import Download, Origin, require_file
from tepui.data.files.published_arrays import Contents, PublishedArrays


def _download(part: str, md5: str, sha256: str, size: int) -> Download:
    url = f"https://ufldl.stanford.edu/housenumbers/{part}_32x32.mat"
    publisher = "torchvision; the authors publish none"
    return Download(url, f"md5:{md5}", publisher, size, sha256)


@final
class SVHN(PublishedArrays):
    """SVHN, 99 289 images of 32 px in 10 classes.

    Images are bytes of shape ``(samples, 3, 32, 32)``, labels the digits, int64.
    Arguments as in :class:`tepui.data.files.published_arrays.PublishedArrays`.
    """

    origin = Origin(
        ("svhn",),
        (
            _download(
                "train",
                "e26dedcc434d2e4c54c9b2d4a06d8373",
                "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
                182_000_000,
            ),
            _download(
                "test",
                "eb5a983be6a315427106f1b164d9cef3",
                "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
                64_000_000,
            ),
        ),
    )
    normalization = Normalize((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970))
    shape = (3, 32, 32)
    num_samples: ClassVar[dict[bool, int]] = {True: 73_257, False: 26_032}

    def _read(self, folder: Path, train: bool) -> Contents:
        from scipy.io import loadmat, whosmat

        path = folder / f"{'train' if train else 'test'}_32x32.mat"
        require_file(path)
        try:
            sizes = [math.prod(shape) for _, shape, _ in whosmat(path)]
            limits_here().check("unpacked_bytes", sum(sizes), path)
            arrays = loadmat(path, variable_names=("X", "y"))
        except Exception as error:  # a damaged file can fail in any way
            raise ValueError(f"{path} must be a valid .mat file: {error}") from error
        for name in ("X", "y"):
            require(name in arrays, str(path), f"hold {name!r}", sorted(arrays))
        images, labels = arrays["X"], np.asarray(arrays["y"]).ravel()
        require(images.ndim == 4, str(path), "hold images", images.shape)
        from_1 = labels.min(initial=1) >= 1 and labels.max(initial=1) <= 10
        require(bool(from_1), str(path), "hold labels from 1 to 10", labels[:10])
        rows = np.ascontiguousarray(images.transpose(3, 2, 0, 1))
        return rows, labels.astype(np.int64) % 10, tuple("0123456789")
