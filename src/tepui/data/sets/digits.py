"""Handwritten digits that ship with scikit-learn: no download, seconds to train.

1797 gray images of 8×8 pixels in ten classes, values 0 to 16. The library's own split
holds 1437 training and 360 test images, with the classes in the same proportions; it
is drawn from tepui's generators and does not change with scikit-learn's.

References:
    Alpaydin and Kaynak (1998), Optical Recognition of Handwritten Digits, UCI.
"""

from typing import final

import torch
from torch import Tensor

from tepui.core.seeding import generator
from tepui.data.arrays import Arrays, Normalize

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
