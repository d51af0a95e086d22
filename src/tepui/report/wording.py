"""Numbers and lists in words, as the page's sentences and tables write them."""

import math

MINUS = "−"  # noqa: RUF001 - a real minus sign
DASH = "–"  # noqa: RUF001 - a dash, for what is not known
TIMES = "×"  # noqa: RUF001 - a sign of multiplication
LIMITS = (0, 100)  # of shares in percent, and of sizes


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


def with_unit(number: str, one: str) -> str:
    """Return a written number with what it counts, by the name of one; or without.

    Example:
        >>> with_unit("1", "epoch"), with_unit("2 to 4", "epoch"), with_unit("4", "")
        ('1 epoch', '2 to 4 epochs', '4')
    """
    return f"{number} {one if number == '1' else f'{one}s'}" if one else number


def opening(text: str) -> str:
    """Return a sentence whose first letter is a capital.

    Example:
        >>> opening("two points")
        'Two points'
    """
    return text[:1].upper() + text[1:]
