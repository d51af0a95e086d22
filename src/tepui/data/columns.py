"""How the cells of a table become the numbers that a model sees.

A column of numbers stays one number. A column of words becomes a zero or one for each
of the words that the training rows hold; a word that they do not hold is all zeros. It
is a plain value, kept with an ensemble: new rows are read as the training rows were.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.data.arrays import Normalize
from tepui.data.files.table_rows import TableRows, is_missing

# More different words than that are names or numbers that went wrong.
MOST_WORDS = 100
# Standard deviations below that are none in float32, in which models compute.
SMALLEST = torch.finfo(torch.float32).tiny
# As a share of the largest number, less than that comes from rounding in float64.
ROUNDING = 1e-12
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
Missing = Literal["refuse", "fill"]


@final
@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        name: What it is called.
        words: The words that it may hold; none where it holds numbers.
        fill: What takes the place of a missing number; None refuses it.
    """

    name: str
    words: tuple[str, ...] = ()
    fill: float | None = None

    def encoded(self, rows: TableRows) -> list[list[float]]:
        """Return the numbers of every row."""
        cells = rows.column(self.name)
        if self.words:
            places = {word: place for place, word in enumerate(self.words)}
            return [_one_hot(places.get(cell), len(places)) for cell in cells]
        return [[self._number(rows, row, cell)] for row, cell in enumerate(cells)]

    def _number(self, rows: TableRows, row: int, cell: str) -> float:
        if is_missing(cell) and self.fill is not None:
            return self.fill
        number = number_in(cell)
        if number is None:
            rows.refuse(row, self.name, _rule_of_numbers(cell))
        return number


@final
@dataclass(frozen=True)
class Columns:
    """The columns that a model sees, in their order.

    Attributes:
        columns: What each of them holds.
        fills: Whether missing values are filled: a number by the mean of the training
            rows, a word by none of the known ones.
    """

    columns: tuple[Column, ...]
    fills: bool = False

    @classmethod
    def learned(cls, rows: TableRows, names: Sequence[str], missing: Missing) -> Self:
        """Return what training rows say of their columns.

        Raises:
            ValueError: If a value is missing and not to be filled, a number is missing
                among numbers, or a column has too many different words.
        """
        require(
            len(names) > 0, str(rows.path), "hold columns beside the target", "none"
        )
        fills = missing == "fill"
        return cls(tuple(_learned(rows, name, fills) for name in names), fills)

    @classmethod
    def of(cls, columns: Sequence[Mapping[str, Any]], fills: bool) -> Self:
        """Read what a document holds."""
        read = (Column(c["name"], tuple(c["words"]), c["fill"]) for c in columns)
        return cls(tuple(read), fills)

    def encoded(self, rows: TableRows) -> Tensor:
        """Return the numbers of all rows, ``(rows, features)`` in float64.

        Raises:
            ValueError: If a column is missing, or a cell cannot be read.
        """
        if not self.fills:
            for column in self.columns:
                _check_complete(rows, column.name)
        parts = [
            torch.tensor(c.encoded(rows), dtype=torch.double) for c in self.columns
        ]
        return torch.cat(parts, dim=1)

    def scaling(self, rows: TableRows) -> Normalize:
        """Return what standardizes the columns of numbers and leaves words alone."""
        features = zip(self._owners(), self.encoded(rows).T, strict=True)
        chosen = [
            (0.0, 1.0) if column.words else _mean_and_std(values)
            for column, values in features
        ]
        means, stds = zip(*chosen, strict=True)
        return Normalize(means, stds)

    def standardized(self, rows: TableRows, scaling: Normalize) -> Tensor:
        """Return what a model sees, ``(rows, features)`` in float32.

        Only what is standardized is rounded: dates in seconds would be all the same.

        Raises:
            ValueError: If a column is missing, or a cell cannot be read or is too far
                from the training rows for float32.
        """
        values = scaling(self.encoded(rows)).float()
        if not values.isfinite().all():
            row, feature = (~values.isfinite()).nonzero()[0].tolist()
            rule = "be less far from the training rows (a model computes in float32)"
            rows.refuse(row, self._owners()[feature].name, rule)
        return values

    def _owners(self) -> list[Column]:
        """Return the column of each feature."""
        return [column for column in self.columns for _ in column.words or (0,)]


def number_in(cell: str) -> float | None:
    """Return the finite number that a cell holds; None if it holds none.

    Example:
        >>> number_in("1e3"), number_in("Bern"), number_in("inf"), number_in("1_0")
        (1000.0, None, None, None)
    """
    number = _float(cell)
    return number if number is not None and math.isfinite(number) else None


def check_points(rows: TableRows, name: str) -> None:
    """Raise if the numbers of a column that is no column of numbers have commas."""
    cells = rows.column(name)
    row = next((r for r, cell in enumerate(cells) if _has_comma(cell)), None)
    if row is not None and _are_mostly_numbers(cells):
        rows.refuse(row, name, _rule_of_numbers(cells[row]))


def _learned(rows: TableRows, name: str, fills: bool) -> Column:
    """Return what a column holds: numbers if most of its cells do, else words."""
    cells = rows.column(name)
    if not fills:
        _check_complete(rows, name)
    present = [(row, cell) for row, cell in enumerate(cells) if not is_missing(cell)]
    rule = "hold values (leave it out by --data.ignore)"
    require(len(present) > 0, f"column {name!r} of {rows.path}", rule, "none")
    if not _are_mostly_numbers([cell for _, cell in present]):
        return Column(name, _words(rows, name, {cell for _, cell in present}))
    known = [number for _, cell in present if (number := number_in(cell)) is not None]
    if len(known) < len(present):
        row, cell = next(pair for pair in present if number_in(pair[1]) is None)
        rows.refuse(row, name, _rule_of_numbers(cell, ", as in most rows"))
    return Column(name, fill=_mean(known) if fills else None)


def _are_mostly_numbers(cells: Sequence[str]) -> bool:
    """Return whether most cells are meant as numbers, be they ones to refuse."""
    meant = sum(_float(cell) is not None or _has_comma(cell) for cell in cells)
    return 2 * meant > len(cells)


def _rule_of_numbers(cell: str, reason: str = "") -> str:
    """Return what a cell that holds no number has to be."""
    if _has_comma(cell):
        return "have a decimal point and no comma (12.5, not 12,5)"
    return f"be a number{reason}" if _float(cell) is None else "be a finite number"


def _float(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def _has_comma(cell: str) -> bool:
    return DECIMAL_COMMA.fullmatch(cell) is not None


def _mean(numbers: Sequence[float]) -> float:
    """Return the mean; dividing first, no sum is beyond float64."""
    return math.fsum(number / len(numbers) for number in numbers)


def _mean_and_std(values: Tensor) -> tuple[float, float]:
    """Return mean and standard deviation, 1 where nothing varies beyond rounding."""
    largest = float(values.abs().max()) or 1.0
    shares = values / largest  # whose squares are not beyond float64
    std = float(shares.std(unbiased=False))
    varies = std > ROUNDING and std * largest > SMALLEST
    return float(shares.mean()) * largest, std * largest if varies else 1.0


def _words(rows: TableRows, name: str, words: set[str]) -> tuple[str, ...]:
    rule = (
        f"hold numbers, or at most {MOST_WORDS} different words (leave it out by "
        "--data.ignore)"
    )
    described = f"{len(words)} different words, such as {min(words)!r}"
    fits = len(words) <= MOST_WORDS
    require(fits, f"column {name!r} of {rows.path}", rule, described)
    return tuple(sorted(words))


def _check_complete(rows: TableRows, name: str) -> None:
    rule = (
        "hold a value (--data.missing fill puts the mean of a column in the place "
        "of missing numbers)"
    )
    for row, cell in enumerate(rows.column(name)):
        if is_missing(cell):
            rows.refuse(row, name, rule)


def _one_hot(place: int | None, length: int) -> list[float]:
    return [float(place == other) for other in range(length)]
