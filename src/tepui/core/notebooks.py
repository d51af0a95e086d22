"""What notebooks show of an object, beside its text."""

from collections.abc import Callable
from typing import Any, ClassVar


class ShownInNotebooks:
    """Shows itself in notebooks by the tables and pictures of the report's page.

    The page stands floors above what it shows: ``tepui/__init__.py`` brings them
    together.
    """

    _repr_html_: ClassVar[Callable[[Any], str]]
