"""A number with the noun it counts."""


def counted(number: int, one: str, several: str = "") -> str:
    """Return a number with what it counts.

    Example:
        >>> counted(1, "search", "searches"), counted(2, "sample")
        ('1 search', '2 samples')
    """
    return f"{number} {one if number == 1 else several or f'{one}s'}"
