"""How much a file may ask for before it is refused.

A file of a few bytes can claim to hold a picture of a terabyte. Readers compare what it
claims with these limits before they take memory or disk.
"""

import os
from dataclasses import dataclass, fields

from tepui.core.checks import require

PREFIX = "TEPUI_LIMIT_"


@dataclass(frozen=True)
class Limits:
    """What one file may ask for.

    Each limit is changed by an environment variable of its name, such as
    ``TEPUI_LIMIT_IMAGE_PIXELS=500000000``, so that all processes of a run follow it.

    Attributes:
        image_pixels: Pixels of an image; Pillow refuses twice the default itself.
        unpacked_bytes: Bytes that a compressed file or an archive may become.
        archive_members: Files and folders of an archive.
        json_bytes: Bytes of a JSON document.
        json_depth: How deep lists and objects of a JSON document may be nested.
        header_bytes: Bytes of the header of a safetensors file.

    Example:
        >>> Limits().json_depth
        100
    """

    image_pixels: int = 89_478_485  # beyond which Pillow warns
    unpacked_bytes: int = 2**34
    archive_members: int = 2_000_000
    json_bytes: int = 2**28
    json_depth: int = 100
    header_bytes: int = 2**24

    def check(self, name: str, amount: int, where: object) -> None:
        """Raise if a file asks for more than its limit.

        Args:
            name: Which of the limits.
            amount: What the file asks for.
            where: The file.

        Raises:
            ValueError: If so; it names the variable that raises the limit.
        """
        limit: int = getattr(self, name)
        if amount > limit:
            words = name.replace("_", " ")
            raise ValueError(
                f"{where} must stay within the limit of {limit} {words}, got {amount}; "
                f"if the file is to be trusted, set {PREFIX}{name.upper()}"
            )


def limits_here() -> Limits:
    """Return the limits of this process: the defaults, or what its environment says."""
    chosen: dict[str, int] = {}
    for field in fields(Limits):
        variable = PREFIX + field.name.upper()
        text = os.environ.get(variable)
        if text is not None:
            fits = text.isascii() and text.isdecimal() and int(text) > 0
            require(fits, variable, "be a positive whole number", text)
            chosen[field.name] = int(text)
    return Limits(**chosen)
