"""SVHN: house numbers, 73 257 training and 26 032 test images of 32×32 pixels.

Two files in MATLAB's format, ``train_32x32.mat`` and ``test_32x32.mat``, where the
digit 0 has the label 10.

References:
    Netzer, Wang, Coates, Bissacco, Wu and Ng (2011), Reading Digits in Natural Images
    with Unsupervised Feature Learning, NIPS Workshop on Deep Learning.
"""

from pathlib import Path
from typing import ClassVar, final

import numpy as np
import torch

from tepui.core.checks import require
from tepui.data.arrays import Arrays, Normalize
from tepui.data.files.installing import located
from tepui.data.files.sources import Download, Source, require_file

SAMPLES = {True: 73_257, False: 26_032}
_SITE = "http://ufldl.stanford.edu/housenumbers/"
_PUBLISHER = "torchvision; the authors publish none"


@final
class SVHN(Arrays):
    """Street View House Numbers, cropped digits.

    Images are bytes of shape ``(samples, 3, 32, 32)``, labels the digits, int64.

    Args:
        root: The data folder, or the set's own; see :mod:`tepui.data.files.sources`.
        train: The 73 257 training images if true, else the 26 032 test images.
        download: Fetch the set if it is not there.

    Raises:
        FileNotFoundError: If a file is not there; the message says how to get it.
        ValueError: If a file is truncated, foreign or of another size.
    """

    source: ClassVar[Source] = Source(
        about="SVHN, 99 289 images of 32 px in 10 classes",
        folders=("svhn",),
        downloads=(
            Download(
                _SITE + "train_32x32.mat",
                "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
                _PUBLISHER,
                182_000_000,
            ),
            Download(
                _SITE + "test_32x32.mat",
                "md5:eb5a983be6a315427106f1b164d9cef3",
                _PUBLISHER,
                64_000_000,
            ),
        ),
    )
    normalization: ClassVar[Normalize] = Normalize(
        (0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)
    )

    def __init__(
        self,
        root: str | Path | None = None,
        train: bool = True,
        download: bool = False,
    ) -> None:
        folder = located("SVHN", self.source, root, download)
        path = folder / f"{'train' if train else 'test'}_32x32.mat"
        images, labels = _read(path, SAMPLES[train])
        classes = tuple("0123456789")
        super().__init__(images, labels, self.normalization, classes)


def _read(path: Path, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    from scipy.io import loadmat

    require_file(path)
    try:
        found = loadmat(path, variable_names=("X", "y"))
    except Exception as error:  # a damaged file fails in any way it likes
        raise ValueError(f"{path} must be a whole .mat file, but: {error}") from error
    for name in ("X", "y"):
        require(name in found, str(path), f"hold {name!r}", sorted(found))
    images, labels = found["X"], np.asarray(found["y"]).ravel()
    shape = (32, 32, 3, samples)
    right = images.shape == shape and images.dtype == np.uint8
    rule = f"hold bytes of shape {shape}"
    require(right, str(path), rule, f"{images.dtype} of shape {images.shape}")
    right = labels.shape == (samples,) and bool(((labels >= 1) & (labels <= 10)).all())
    require(right, str(path), f"hold {samples} labels from 1 to 10", labels.shape)
    rows = np.ascontiguousarray(images.transpose(3, 2, 0, 1))
    digits = labels.astype(np.int64) % 10
    return torch.from_numpy(rows), torch.from_numpy(digits)
