"""Columns of a table that hold dates, which a model would see as words."""

import re
from collections.abc import Sequence

from tepui.core.warning import warn
from tepui.data.columns import Column

_DATE = re.compile(r"(\d{4}([-/.])\d\d?\2\d\d?|\d\d?([-/.])\d\d?\3\d{2,4})([ T].*)?")


def warn_of_dates(columns: Sequence[Column]) -> None:
    """Say which columns hold dates alone: later ones are words that no row had."""
    names = [column.name for column in columns if _holds_dates(column.words)]
    if names:
        warn(
            "dates are read as words, and one that no training row has as none of "
            f"them: write {', '.join(map(repr, names))} as numbers, such as a month or "
            "days since a day, or leave such columns out (ignore)"
        )


def _holds_dates(words: Sequence[str]) -> bool:
    """Return whether all words of a column are dates.

    Example:
        >>> _holds_dates(("2024-05-31", "2024-06-01 10:30"))
        True
        >>> _holds_dates(("31.5.24", "later")), _holds_dates(())
        (False, False)
    """
    return bool(words) and all(map(_DATE.fullmatch, words))
