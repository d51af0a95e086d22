"""Numbers and lists in words, as the page's sentences and tables write them."""

import math
from collections.abc import Iterable, Sequence

MINUS = "−"  # noqa: RUF001 - a real minus sign
DASH = "–"  # noqa: RUF001 - a dash, for what is not known
TIMES = "×"  # noqa: RUF001 - a sign of multiplication
LIMITS = (0, 100)  # of shares in percent, and of sizes
SMALL = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def number(value: float, digits: int = 1, *, sign: bool = False) -> str:
    """Return a number with a real minus sign and no negative zero.

    Example:
        >>> number(-0.04), number(3.14159, 2, sign=True), number(float("nan"))
        ('0.0', '+3.14', '–')
    """
    if not math.isfinite(value):
        return DASH if math.isnan(value) else ("∞" if value > 0 else f"{MINUS}∞")
    text = f"{abs(value):.{digits}f}"
    if not float(text):
        return text
    return (MINUS if value < 0 else "+" if sign else "") + text


def ends(low: float, high: float, digits: int = 1, *, sign: bool = False) -> str:
    """Return both ends of an interval; a limit that cuts it is written as it is.

    Example:
        >>> ends(-1, 2.25, 2, sign=True), ends(97.5, 100)
        ('−1.00 to +2.25', '97.5 to 100')
    """
    both = (
        number(end, 0 if end in LIMITS else digits, sign=sign) for end in (low, high)
    )
    return " to ".join(both)


def span(values: Sequence[float], digits: int = 1) -> str:
    """Return the range of several numbers, or the number that they share.

    Example:
        >>> span([1.0, 3.0, 2.0]), span([1.01, 1.02])
        ('1.0 to 3.0', '1.0')
    """
    both = (number(end, digits) for end in (min(values), max(values)))
    return " to ".join(dict.fromkeys(both))


def listed(parts: Iterable[str]) -> str:
    """Return parts joined by commas and "and".

    Example:
        >>> listed(["a", "b", "c"]), listed(["a"])
        ('a, b and c', 'a')
    """
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def some(parts: Sequence[str], most: int) -> str:
    """Return the first parts, and how many more there are.

    Example:
        >>> some(["a", "b", "c"], 2), some(["a", "b"], 2)
        ('a, b and one more', 'a and b')
    """
    rest = len(parts) - most
    return listed([*parts[:most], f"{word(rest)} more"] if rest > 0 else parts)


def word(value: int) -> str:
    """Return a small number in words.

    Example:
        >>> word(2), word(12)
        ('two', '12')
    """
    return SMALL[value] if 0 <= value < len(SMALL) else str(value)


def with_unit(number: str, one: str) -> str:
    """Return a written number with what it counts, by the name of one; or without.

    Example:
        >>> with_unit("1", "epoch"), with_unit("2 to 4", "epoch"), with_unit("4", "")
        ('1 epoch', '2 to 4 epochs', '4')
    """
    return f"{number} {one if number == '1' else f'{one}s'}" if one else number


def role(place: int, methods: int) -> str:
    """Return what the first of several methods is to the others.

    Example:
        >>> role(0, 3), role(1, 3), role(0, 1)
        ('baseline', '', '')
    """
    return "baseline" if place == 0 and methods > 1 else ""


def opening(text: str) -> str:
    """Return a sentence whose first letter is a capital.

    Example:
        >>> opening("two points")
        'Two points'
    """
    return text[:1].upper() + text[1:]


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it.

    Example:
        >>> duration(8.2), duration(130), duration(9000)
        ('8 seconds', '2 minutes', '2.5 hours')
    """
    if seconds < 1.5:
        return "a second"
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"
