"""Numbers as every machine writes them.

Libraries for linear algebra and special functions differ in the last digits of a double
from one processor to another: by 1e-15 of most numbers, by 1e-12 of the smallest
p-values.
"""

from collections.abc import Mapping
from typing import Any

DIGITS = 9


def rounded(value: Any) -> Any:
    """Return a value for a JSON document, with nine significant digits of its floats.

    Example:
        >>> rounded({"error": 0.29608086847321585, "values": (2, 1 / 3, None)})
        {'error': 0.296080868, 'values': [2, 0.333333333, None]}
    """
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: rounded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return value
