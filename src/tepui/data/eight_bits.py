"""Images of more than eight bits as such of eight.

Pillow's own conversion clips larger numbers: all but the darkest pixels become white.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tepui.core.checks import require
from tepui.core.warning import warn

if TYPE_CHECKING:
    from PIL import Image

# What Pillow calls images of numbers that have no largest one.
WITHOUT_WHITE = ("I", "F")
BYTE, ALL = 2**8 - 1, 2**16 - 1
# Tags of TIFF files: BitsPerSample and MaxSampleValue.
BITS, LARGEST = 258, 281
# An image of 16 bits below it was likely taken with 12 bits or less.
DARK = 2**12
IN_THE_DARK = (
    "an image of 16 bits holds no number above 4095, and comes out nearly black: 65535 "
    "is white; if the camera has 12 bits, multiply the pixels by 16 and save them "
    "again, or write MaxSampleValue 4095 (tag 281) into the TIFF files"
)


def eight_bits(image: "Image.Image") -> "Image.Image":
    """Return an image of 16 bits scaled to 8, others as they are.

    A TIFF file of 12 bits, by its tags, is scaled by those. Another image that holds
    no more than such numbers is named in a warning.

    Raises:
        ValueError: If numbers have no largest one that would be white.

    Example:
        >>> from PIL import Image
        >>> image = Image.fromarray(np.array([[0, 32768, 65535]], dtype=np.uint16))
        >>> np.array(eight_bits(image)).tolist()
        [[0, 128, 255]]
    """
    from PIL import Image

    # Pillow reads PGM files of more than eight bits as integers up to 65535.
    if image.mode.startswith("I;16") or (image.mode, image.format) == ("I", "PPM"):
        pixels, white = np.array(image).astype(np.int64), _white(image)
        if white == ALL and 0 < pixels.max() < DARK:
            warn(IN_THE_DARK)
        scaled = (pixels.clip(max=white) * 255 + white // 2) // white
        return Image.fromarray(scaled.astype(np.uint8))
    rule = "be one of 8 or 16 bits (scale the pixels to that and save them as PNG)"
    require(image.mode not in WITHOUT_WHITE, "mode", rule, image.mode)
    return image


def _white(image: "Image.Image") -> int:
    """Return the number that is white: all 16 bits, unless a TIFF file says fewer.

    Its MaxSampleValue may also be the largest number that one image happens to hold:
    only what is all the numbers of some bits, such as 4095, speaks for all images.
    """
    tags: Mapping[int, tuple[int, ...]] = getattr(image, "tag_v2", {})
    bits, largest = tags.get(BITS, (16,))[0], tags.get(LARGEST, (ALL,))[0]
    whole = isinstance(largest, int) and largest > BYTE and not largest & (largest + 1)
    return min((1 << bits) - 1, largest if whole else ALL)
