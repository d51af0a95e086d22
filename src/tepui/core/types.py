"""Whether values are of the types that a signature promises, checked at the door.

Annotations check nothing by themselves, and what Python says of a string where a number
belongs names neither the argument nor the rule. Numbers must be finite; booleans are no
numbers here.
"""

import math
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from inspect import Parameter, signature
from numbers import Integral, Real
from pathlib import Path
from typing import (
    Any,
    Literal,
    TypeGuard,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import torch

from tepui.core.checks import one_of, require

PLAIN = {
    int: "an integer",
    float: "a finite number",
    bool: "True or False",
    str: "a string",
    Path: "a path",
    types.NoneType: "None",
    torch.Tensor: "a tensor",
    torch.nn.Module: "a module",
}
# The longest value that a message shows whole.
SHOWN = 200


def check_types(owner: Callable[..., Any], values: Mapping[str, object]) -> None:
    """Raise if values are not of the types that a function or dataclass declares.

    Args:
        owner: The function, or the class whose fields are declared.
        values: Values by the names of arguments or fields; others are not checked.

    Raises:
        ValueError: If a value is of another type.

    Example:
        >>> def step(size: float, times: int | None = None): ...
        >>> check_types(step, {"size": 0.1, "times": 3})
        >>> check_types(step, {"size": "0.1"})
        Traceback (most recent call last):
        ValueError: size must be a finite number, got '0.1'
        >>> check_types(step, {"times": True})
        Traceback (most recent call last):
        ValueError: times must be an integer or None, got True
    """
    for name, hint in _hints(owner).items():
        if name in values and not fits(values[name], hint):
            value, words = values[name], _words(hint)
            if words and isinstance(value, str):
                one_of(name, value, words)
            require(False, name, f"be {described(hint)}", _short(value))


def check_fields(spec: Any) -> None:
    """Raise if a dataclass holds values of other types than it declares."""
    check_types(type(spec), vars(spec))


def fits(value: object, hint: Any) -> bool:
    """Return whether a value is of an annotated type; what cannot be told is.

    Example:
        >>> fits((0.1, 0.2), tuple[float, ...]), fits("ab", tuple[str, ...])
        (True, False)
    """
    if hint in NUMBERS:
        return NUMBERS[hint](value)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, part) for part in inner)
    if origin is Literal:
        return any(type(value) is type(item) and value == item for item in inner)
    if origin is tuple and inner[-1:] != (...,):
        return _is_list(value) and _each_fits(value, inner)
    if origin in (tuple, list, Sequence):
        return _is_list(value) and all(fits(item, inner[0]) for item in value)
    if origin in (Mapping, Iterable):
        return isinstance(value, origin) and not isinstance(value, str | bytes)
    if origin is Callable or _is_called(hint):
        return callable(value)
    unknown = hint is Any or origin is not None or not isinstance(hint, type)
    return unknown or getattr(hint, "_is_protocol", False) or isinstance(value, hint)


def described(hint: Any) -> str:
    """Return an annotated type in words.

    Example:
        >>> described(float | tuple[float, ...] | None)
        'a finite number or a sequence (each a finite number) or None'
    """
    origin, inner = get_origin(hint), get_args(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if origin in (Union, types.UnionType):
        return " or ".join(map(described, inner))
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin is tuple and inner[-1:] != (...,):
        return f"a sequence of {len(inner)} ({', '.join(map(described, inner))})"
    if origin in (tuple, list, Sequence):
        return f"a sequence (each {described(inner[0])})"
    if origin in (Mapping, Iterable):
        return "a mapping" if origin is Mapping else "iterable"
    if origin is Callable or _is_called(hint):
        return "callable"
    return f"of type {getattr(hint, '__name__', hint)}"


def _is_called(hint: Any) -> bool:
    """Return whether a protocol is that of a function."""
    return getattr(hint, "_is_protocol", False) and "__call__" in vars(hint)


def _is_integer(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, Integral):
        return False
    return abs(int(value)) < 2**63


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return _is_integer(value) if isinstance(value, Integral) else math.isfinite(value)


NUMBERS: dict[Any, Callable[[object], bool]] = {
    int: _is_integer,
    float: _is_number,
    types.NoneType: lambda value: value is None,
}


def _words(hint: Any) -> list[str]:
    """Return the words among the options that an annotation lists."""
    if get_origin(hint) in (Union, types.UnionType):
        return [word for part in get_args(hint) for word in _words(part)]
    return [*get_args(hint)] if get_origin(hint) is Literal else []


def _each_fits(values: Any, hints: Collection[Any]) -> bool:
    return len(values) == len(hints) and all(map(fits, values, hints))


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    lists = isinstance(value, Sequence | torch.nn.ModuleList)
    return lists and not isinstance(value, str | bytes)


def _short(value: object) -> object:
    """Return a value, or its type where showing it would take too long."""
    plain = isinstance(value, str | bool | Real | list | tuple | dict | type(None))
    return value if plain and len(repr(value)) <= SHOWN else type(value)


@cache
def _hints(owner: Callable[..., Any]) -> dict[str, Any]:
    try:
        hints = get_type_hints(owner)
    except (NameError, TypeError):  # annotations that cannot be resolved from outside
        return {}
    several = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    parameters = {} if isinstance(owner, type) else signature(owner).parameters
    left_out = {name for name, p in parameters.items() if p.kind in several}
    return {n: hint for n, hint in hints.items() if n not in {*left_out, "return"}}
