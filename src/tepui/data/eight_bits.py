"""Images of more than eight bits as such of eight.

Pillow's own conversion clips larger numbers: all but the darkest pixels become white.
"""

from typing import TYPE_CHECKING

import numpy as np

from tepui.core.checks import require

if TYPE_CHECKING:
    from PIL import Image

# What Pillow calls images of numbers that have no largest one.
WITHOUT_WHITE = ("I", "F")


def eight_bits(image: "Image.Image") -> "Image.Image":
    """Return an image of 16 bits scaled to 8, others as they are.

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
        scaled = (np.array(image).astype(np.int64) + 128) // 257
        return Image.fromarray(scaled.astype(np.uint8))
    rule = "be one of 8 or 16 bits (scale the pixels to that and save them as PNG)"
    require(image.mode not in WITHOUT_WHITE, "mode", rule, image.mode)
    return image
