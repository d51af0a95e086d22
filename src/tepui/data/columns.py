"""How the cells of a table become the numbers that a model sees.

A column of numbers stays one number. A column of words becomes a zero or one for each
of the words that the training rows hold; a word that they do not hold is all zeros. It
is a plain value, kept with an ensemble: new rows are read as the training rows were.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tepui.data.arrays import Normalize
from tepui.data.files.cell_numbers import float_in, has_comma
from tepui.data.files.table_faults import Fault
from tepui.data.files.table_gaps import TableGaps
from tepui.data.files.table_rows import TableRows, is_missing

# More different words than that are names or numbers that went wrong.
MOST_WORDS = 100
# Standard deviations below that are none in float32, in which models compute.
SMALLEST = torch.finfo(torch.float32).tiny
# As a share of the largest number, less than that comes from rounding in float64.
ROUNDING = 1e-12
Missing = Literal["refuse", "fill"]
IGNORE = "leave it out by ignore"
FILL = 'missing="fill" puts the mean of a column in the place of missing numbers'
# The same of new rows, for an ensemble that learned from rows without gaps.
TRAIN_TO_FILL = (
    "fill these cells; an ensemble that is trained on "
    'Table(missing="fill") puts the mean of a column there'
)


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

    def encoded(self, rows: TableRows) -> NDArray[np.float64]:
        """Return the numbers of every row, ``(rows, features)``, if none is faulty."""
        if self.words:
            return np.eye(len(self.words) + 1)[self._places(rows), :-1]
        numbers = rows.numbers(self.name).copy()
        if self.fill is not None:
            numbers[rows.missing(self.name)] = self.fill
        return numbers[:, None]

    def faults(
        self, rows: TableRows, fills: bool, reason: str, hint: str
    ) -> list[Fault]:
        """Return the cells that cannot be read, with a hint at what fills gaps."""
        filled = fills and (bool(self.words) or self.fill is not None)
        missing = [] if filled else rows.missing(self.name)
        found = [rows.fault(row, self.name, "hold a value", hint) for row in missing]
        return found if self.words else found + no_numbers(rows, self.name, reason)

    def unknown_words(self, rows: TableRows) -> list[int]:
        """Return the rows that hold a word which the training rows do not."""
        if not self.words:
            return []
        cells, unknown = rows.cells[self.name], len(self.words)
        places = enumerate(self._places(rows))
        return [r for r, at in places if at == unknown and not is_missing(cells[r])]

    def _places(self, rows: TableRows) -> list[int]:
        """Return the place of every word, the last for those that are not known."""
        places = {word: place for place, word in enumerate(self.words)}
        return [places.get(cell, len(places)) for cell in rows.cells[self.name]]


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
    def learned(
        cls, rows: TableRows, names: Sequence[str], missing: Missing
    ) -> tuple[Self, list[Fault]]:
        """Return what training rows say of their columns.

        Columns that are wrong as a whole, without values or with too many different
        words, are left out, and are faults.
        """
        fills = missing == "fill"
        found = [_learned(rows, name, fills) for name in names]
        columns = tuple(each for each in found if isinstance(each, Column))
        return cls(columns, fills), [each for each in found if isinstance(each, Fault)]

    @classmethod
    def of(cls, columns: Sequence[Mapping[str, Any]], fills: bool) -> Self:
        """Read what a document holds."""
        read = (Column(c["name"], tuple(c["words"]), c["fill"]) for c in columns)
        return cls(tuple(read), fills)

    def faults(
        self, rows: TableRows, reason: str = "", hint: str = FILL
    ) -> list[Fault]:
        """Return the columns that some rows lack, and cells that cannot be read."""
        present = [column for column in self.columns if column.name in rows.cells]
        cells = (f for c in present for f in c.faults(rows, self.fills, reason, hint))
        return [*rows.absent(column.name for column in self.columns), *cells]

    def gaps(self, rows: TableRows) -> TableGaps:
        """Return what of some rows the training rows do not explain."""
        names = [column.name for column in self.columns]
        unknown = {c.name: c.unknown_words(rows) for c in self.columns}
        filled = {name: rows.missing(name) for name in names if self.fills}
        return TableGaps.of(rows, unknown, filled)

    def scaling(self, rows: TableRows, broken: Collection[str] = ()) -> Normalize:
        """Return what standardizes the columns of numbers and leaves words alone.

        Columns that are broken are left alone too.
        """
        features = zip(self._owners(), self._encoded(rows, broken).T, strict=True)
        chosen = [
            (0.0, 1.0) if column.words else _mean_and_std(values)
            for column, values in features
        ]
        means, stds = zip(*chosen, strict=True)
        return Normalize(means, stds)

    def standardized(
        self, rows: TableRows, scaling: Normalize, broken: Collection[str] = ()
    ) -> tuple[Tensor, list[Fault]]:
        """Return what a model sees, ``(rows, features)`` in float32.

        With it, the cells that are too far from the training rows for float32. Columns
        that are broken, whose cells cannot all be read, are not looked at. Only what is
        standardized is rounded: dates in seconds would be all the same.
        """
        values = scaling(self._encoded(rows, broken)).float()
        rule = "be less far from the training rows (a model computes in float32)"
        far = (~values.isfinite()).nonzero().tolist()
        names = [column.name for column in self._owners()]
        cells = ((row, names[at]) for row, at in far if names[at] not in broken)
        return values, [rows.fault(row, name, rule) for row, name in cells]

    def _encoded(self, rows: TableRows, broken: Collection[str]) -> Tensor:
        """Return the numbers of all rows, ``(rows, features)`` in float64.

        They are zeros in columns that are broken or not there.
        """
        parts = [
            column.encoded(rows)
            if column.name in rows.cells and column.name not in broken
            else np.zeros((len(rows), len(column.words) or 1))
            for column in self.columns
        ]
        return torch.from_numpy(np.concatenate(parts, axis=1))

    @property
    def features(self) -> list[dict[str, Any]]:
        """What every number means that a model sees, for JSON.

        The name of its column, the word that it stands for (None for a number), and
        what takes the place of a missing number (None refuses it).
        """
        return [
            {"column": column.name, "word": word, "fill": column.fill}
            for column in self.columns
            for word in column.words or (None,)
        ]

    def _owners(self) -> list[Column]:
        """Return the column of each feature."""
        return [column for column in self.columns for _ in column.words or (0,)]


def no_points(rows: TableRows, name: str) -> list[Fault]:
    """Return the numbers with decimal commas, where most cells are numbers."""
    cells = rows.cells[name]
    found = [row for row, cell in enumerate(cells) if has_comma(cell)]
    if not found or not _are_mostly_numbers(rows, name):
        return []
    return [rows.fault(row, name, _rule_of_numbers(cells[row])) for row in found]


def no_numbers(rows: TableRows, name: str, reason: str = "") -> list[Fault]:
    """Return the cells that hold a value, but no finite number."""
    cells, missing = rows.cells[name], {*rows.missing(name)}
    found = (row for row in rows.without_number(name) if row not in missing)
    return [rows.fault(r, name, _rule_of_numbers(cells[r], reason)) for r in found]


def _learned(rows: TableRows, name: str, fills: bool) -> Column | Fault:
    """Return what a column holds: numbers if most of its cells do, else words.

    Where it is wrong as a whole, that.
    """
    if len(rows.missing(name)) == len(rows):
        return Fault(rows.path, "hold values", "none", IGNORE, name)
    if not _are_mostly_numbers(rows, name):
        words = {cell for cell in {*rows.cells[name]} if not is_missing(cell)}
        if len(words) > MOST_WORDS:
            rule = f"hold numbers, or at most {MOST_WORDS} different words"
            described = f"{len(words)} different words, such as {min(words)!r}"
            return Fault(rows.path, rule, described, IGNORE, name)
        return Column(name, tuple(sorted(words)))
    numbers = rows.numbers(name)
    known = numbers[~np.isnan(numbers)].tolist()
    return Column(name, fill=_mean(known) if fills else None)


def _are_mostly_numbers(rows: TableRows, name: str) -> bool:
    """Return whether most values are meant as numbers, be they ones to refuse."""
    cells = rows.cells[name]
    counts = Counter(cells[row] for row in rows.without_number(name))
    known = len(cells) - counts.total()
    others = {cell: n for cell, n in counts.items() if not is_missing(cell)}
    meant = sum(n for c, n in others.items() if float_in(c) is not None or has_comma(c))
    return 2 * (known + meant) > known + sum(others.values())


def _rule_of_numbers(cell: str, reason: str = "") -> str:
    """Return what a cell that holds no number has to be."""
    if has_comma(cell):
        return "have a decimal point and no comma (12.5, not 12,5)"
    return f"be a number{reason}" if float_in(cell) is None else "be a finite number"


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
