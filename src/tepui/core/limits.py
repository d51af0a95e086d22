"""How much a file may ask for before it is refused.

A file of a few bytes can claim to hold a picture of a terabyte. Readers compare what it
claims with these limits before they take memory or disk. JSON is read within them: not
too long, not too deep, numbers that are.
"""

import json
import math
import os
from pathlib import Path
from typing import Any, NoReturn

from tepui.core.checks import require

PREFIX = "TEPUI_LIMIT_"
LIMITS = {
    "image_pixels": 89_478_485,  # beyond which Pillow warns, and refuses twice as many
    "unpacked_bytes": 2**34,  # that a compressed file or an archive becomes
    "json_bytes": 2**28,  # of a JSON document
    "json_depth": 100,  # of lists and objects inside each other
    "header_bytes": 2**24,  # of a safetensors file
}


def check_limit(name: str, amount: int, where: object) -> None:
    """Raise if a file asks for more than its limit.

    Each limit is changed by an environment variable of its name, such as
    ``TEPUI_LIMIT_IMAGE_PIXELS=500000000``, so that all processes of a run follow it.

    Args:
        name: Which of the limits.
        amount: What the file asks for.
        where: The file.

    Raises:
        ValueError: If so; it names the variable that raises the limit.
    """
    variable = PREFIX + name.upper()
    text = os.environ.get(variable, str(LIMITS[name]))
    fits = text.isascii() and text.isdecimal() and int(text) > 0
    require(fits, variable, "be a positive whole number", text)
    if amount > int(text):
        raise ValueError(
            f"{where} must stay within the limit of {text} {name.replace('_', ' ')}, "
            f"got {amount}; if the file is to be trusted, set {variable}"
        )


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
    check_limit("json_bytes", len(content), where)
    try:
        value = json.loads(
            content.decode(), parse_constant=_refuse, parse_float=_finite
        )
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} must be {what}, but: {error}") from error
    check_limit("json_depth", _depth(value), where)
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
