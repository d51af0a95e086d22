"""Columns of a table whose cells are all the same, which need not stand in it."""

from collections.abc import Sequence
from typing import NamedTuple


class Narrowed(NamedTuple):
    """A table without the columns that say the same in every row."""

    headings: list[str]
    rows: list[list[str]]
    same: dict[str, str]  # what the others say, by heading


def narrowed(
    headings: Sequence[str], rows: Sequence[Sequence[str]], kept: str
) -> Narrowed:
    """Take columns out of a table whose cells are all the same, but for the one kept.

    Example:
        >>> narrowed(["a", "b", "n"], [["x", "1", "2"], ["y", "1", "2"]], "n")
        Narrowed(headings=['a', 'n'], rows=[['x', '2'], ['y', '2']], same={'b': '1'})
    """
    same = {
        heading: cells[0]
        for heading, *cells in zip(headings, *rows, strict=True)
        if heading != kept and len(set(cells)) == 1
    }
    left = [place for place, heading in enumerate(headings) if heading not in same]
    return Narrowed(
        [headings[place] for place in left],
        [[row[place] for place in left] for row in rows],
        same,
    )
