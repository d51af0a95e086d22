"""Keywords that a function does not take, with the place where they belong."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

from tepui.training.optimizer import SGD, AdamW

P = ParamSpec("P")
R = TypeVar("R")
# What others call an argument of an optimizer.
_OTHERWISE = {"learning_rate": "lr"}


def refusing_unknown(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that says of a keyword which it does not take what is meant."""
    taken = [*signature(function).parameters]

    @wraps(function)
    def called(*args: P.args, **keywords: P.kwargs) -> R:
        for name in keywords:
            if name not in taken:
                said = f"{function.__name__}() takes no keyword {name!r}"
                raise TypeError(f"{said}{_meant(name, taken)}")
        return function(*args, **keywords)

    return called


def _meant(name: str, taken: Sequence[str]) -> str:
    """Return a hint at what was meant.

    Example:
        >>> _meant("lr", ["optimizer"]), _meant("epoch", ["epochs"])
        (': give optimizer=tepui.SGD(lr=...)', ": did you mean 'epochs'?")
    """
    own = _OTHERWISE.get(name, name)
    for kind in (SGD, AdamW):
        if own in signature(kind).parameters:
            return f": give optimizer=tepui.{kind.__name__}({own}=...)"
    near = get_close_matches(name, taken, n=1)
    return f": did you mean {near[0]!r}?" if near else ""
