"""What is loaded late: optional libraries, and the names of a package."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def extra(library: str, name: str, then: str | None = None) -> Any:
    """Import a library, or say how to install it: by an extra, and by what else then.

    Example:
        >>> extra("nothing_of_that_name", "vision")
        Traceback (most recent call last):
        ImportError: nothing_of_that_name is not installed: pip install "tepui[vision]"
    """
    try:
        return import_module(library)
    except ModuleNotFoundError as error:
        needed = error.name or library
        message = f"{needed} is not installed: {remedy(name, then)}"
        raise ImportError(message) from error


def remedy(name: str, then: str | None = None) -> str:
    """Return how an extra is installed, and what else then.

    Example:
        >>> remedy("vision", then="pip install --no-deps timm")
        'pip install "tepui[vision]", then pip install --no-deps timm'
    """
    return f'pip install "tepui[{name}]"' + (f", then {then}" if then else "")


@contextmanager
def known_by_name(
    argument: str, rule: str, value: object, *errors: type[Exception]
) -> Iterator[None]:
    """Let errors of a library that looks a name up say which name of ours it was.

    Args:
        argument: The argument that holds the name.
        rule: What it must do or be, to follow the word "must".
        value: The name.
        errors: What the library raises where it does not know, find or reach it.

    Example:
        >>> with known_by_name("name", "be a letter", "7", KeyError):
        ...     {"a": 1}["7"]
        Traceback (most recent call last):
        ValueError: name must be a letter, got '7': '7'
    """
    try:
        yield
    except errors as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"{argument} must {rule}, got {value!r}: {reason}") from error


def late(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package.

    Args:
        package: The package.
        places: The names in each module; ``""`` has the names of packages inside it.

    Example:
        >>> late("tepui", {"tepui.core.version": "__version__"})("data")
        Traceback (most recent call last):
        AttributeError: module 'tepui' has no attribute 'data'
    """
    where = {name: place for place, names in places.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not where[name]:
            return import_module(f"{package}.{name}")
        value = getattr(import_module(where[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
