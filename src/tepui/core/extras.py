"""Optional libraries, which an extra installs."""

from importlib import import_module
from typing import Any


def extra(library: str, name: str) -> Any:
    """Import a library, or say how to install it.

    Args:
        library: The module to import.
        name: The extra of tepui that brings it.

    Returns:
        The module.

    Raises:
        ImportError: If it, or something it needs, is not installed.

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
