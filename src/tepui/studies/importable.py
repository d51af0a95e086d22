"""Descriptions whose classes and functions can be told apart by their paths.

Two lambdas, or two functions made inside another, may share a path and do different
things: a store that identifies them by path mistakes one for the other.
"""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tepui.core.checks import require


def check_importable(argument: str, value: object) -> None:
    """Raise if a description rests on what no module holds under its name.

    Example:
        >>> check_importable("model", lambda: None)
        Traceback (most recent call last):
        ValueError: model must be a class or function at the top of a module (or \
functools.partial of one), since a store knows it by its path, got '<lambda>'
    """
    rule = (
        "be a class or function at the top of a module (or functools.partial of one), "
        "since a store knows it by its path"
    )
    for place, item in _callables(argument, value):
        name = str(getattr(item, "__qualname__", type(item).__qualname__))
        nameless = "<lambda>" in name or "<locals>" in name
        require(not nameless, place, rule, name)


def _callables(place: str, value: Any) -> Iterator[tuple[str, object]]:
    """Yield the classes and functions that a description names, and where."""
    inner: dict[str, Any] = {}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield place, type(value)
        fields = [field.name for field in dataclasses.fields(value) if field.compare]
        inner = {f"{place}.{name}": getattr(value, name) for name in fields}
    elif isinstance(value, functools.partial):
        yield from _callables(place, value.func)
        inner = {f"{place}.{name}": item for name, item in value.keywords.items()}
        inner |= {f"{place}[{n}]": item for n, item in enumerate(value.args)}
    elif isinstance(value, Mapping):
        inner = {f"{place}[{name!r}]": item for name, item in value.items()}
    elif isinstance(value, Sequence) and not isinstance(value, str):
        inner = {f"{place}[{n}]": item for n, item in enumerate(value)}
    elif callable(value):
        yield place, value
    for where, item in inner.items():
        yield from _callables(where, item)
