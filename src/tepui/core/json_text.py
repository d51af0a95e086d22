"""JSON that is read within limits: not too long, not too deep, numbers that are."""

import json
import math
from typing import Any, NoReturn

from tepui.core.limits import limits_here


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
