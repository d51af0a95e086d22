"""Text that a terminal or a page shows and does not obey."""

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
