"""Text for people: counts, lists of faults, what a terminal or notebook shows."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar


def counted(number: int, one: str, several: str = "") -> str:
    """Return a number with what it counts.

    Example:
        >>> counted(1, "search", "searches"), counted(2, "sample")
        ('1 search', '2 samples')
    """
    return f"{number} {one if number == 1 else several or f'{one}s'}"


MOST = 10


def listed(faults: Sequence[str]) -> str:
    r"""Return faults to follow a colon, each in a line of its own.

    Example:
        >>> listed(["a is bad", "b is bad"])
        '\n  a is bad\n  b is bad'
        >>> listed([f"{n} is bad" for n in range(12)]).splitlines()[-2:]
        ['  9 is bad', '  and 2 more']
    """
    more = len(faults) - MOST
    lines = [*faults[:MOST], *([f"and {more} more"] if more > 0 else [])]
    return "".join(f"\n  {line}" for line in lines)


CONTROL = dict.fromkeys((*range(32), *range(127, 160)), " ")
OF_A_LINE = {code: " " for code in CONTROL if chr(code) not in "\n\t"}


def printable(text: str, *, lines: bool = False) -> str:
    r"""Return text with blanks in place of control characters.

    Args:
        text: Any text, such as the name of a file.
        lines: Whether ends of lines and tabs stay.

    Example:
        >>> printable("a\x1b[2J\nb"), printable("a\x1b[2J\nb", lines=True)
        ('a [2J b', 'a [2J\nb')
    """
    return text.translate(OF_A_LINE if lines else CONTROL)


class ShownInNotebooks:
    """Shows itself in notebooks by the tables and pictures of the report's page.

    The page stands floors above what it shows: ``tepui/__init__.py`` brings them
    together.
    """

    _repr_html_: ClassVar[Callable[[Any], str]]
