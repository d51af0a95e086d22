"""Common corruptions of images, five severities each, batched and seeded.

The fifteen standard and four extra types behind CIFAR-10-C, Tiny-ImageNet-C and
ImageNet-C, for images of any size and any number of channels, on CPU and GPU. One file
holds one family: ``noise``, ``blur``, ``weather``, ``digital``, ``extra``.

Differs from the published scripts: random numbers come from a counter-based generator,
one stream for each image, so bytes are not those of the released sets; motion blur and
snow follow ImageMagick's rule without ImageMagick; frost has procedural textures unless
the photographs are given; the water of ``spatter`` measures distances exactly.

References:
    Hendrycks and Dietterich (2019), Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR.
"""

from tepui.data.corruptions.apply import (
    CORRUPTIONS,
    STANDARD,
    Corruption,
    check_images,
    corrupt,
    parameter,
)
from tepui.data.corruptions.draws import Draws
from tepui.data.corruptions.frost import load_frost
from tepui.data.corruptions.strengths import PARAMETERS

__all__ = [
    "CORRUPTIONS",
    "PARAMETERS",
    "STANDARD",
    "Corruption",
    "Draws",
    "check_images",
    "corrupt",
    "load_frost",
    "parameter",
]
