"""Optional libraries, which an extra installs."""

from importlib import import_module
from typing import Any


def extra(library: str, name: str) -> Any:
    """Import a library, or say how to install it.

    Example:
        >>> extra("nothing_of_that_name", "vision")
        Traceback (most recent call last):
        ImportError: nothing_of_that_name is not installed: pip install "tepui[vision]"
    """
    try:
        return import_module(library)
    except ModuleNotFoundError as error:
        needed = error.name or library
        raise ImportError(
            f'{needed} is not installed: pip install "tepui[{name}]"'
        ) from error
