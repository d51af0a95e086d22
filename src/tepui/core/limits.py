"""How much a file may ask for before it is refused.

A file of a few bytes can claim to hold a picture of a terabyte. Readers compare what it
claims with these limits before they take memory or disk. JSON is read within them: not
too long, not too deep, numbers that are.
"""

import json
import math
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

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
        json_bytes: Bytes of a JSON document.
        json_depth: How deep lists and objects of a JSON document may be nested.
        header_bytes: Bytes of the header of a safetensors file.

    Example:
        >>> Limits().json_depth
        100
    """

    image_pixels: int = 89_478_485  # beyond which Pillow warns
    unpacked_bytes: int = 2**34
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


def check_regular(path: Path) -> None:
    """Raise if reading a path would wait for somebody to write to it."""
    regular = path.is_file() or not path.exists()
    require(regular, str(path), "be a file", "a folder, or something else")


def as_text(value: object) -> str:
    """Return JSON that is the same before a value is written and after it is read."""
    plain = json.loads(json.dumps(value, allow_nan=False))
    return json.dumps(plain, sort_keys=True)


def parsed(content: bytes, where: object, what: str = "a JSON document") -> Any:
    """Return what JSON says; an error names where it comes from and what it must be."""
    limits = limits_here()
    limits.check("json_bytes", len(content), where)
    try:
        value = json.loads(
            content.decode(), parse_constant=_refuse, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} must be {what}, but: {error}") from error
    limits.check("json_depth", _depth(value), where)
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"JSON has no {constant}")


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is beyond the largest number")
    return value


def _depth(value: object) -> int:
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
        ]
    return depth
