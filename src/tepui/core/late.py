"""Names of a package that are loaded where somebody first asks for them."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


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
