"""The cells of a table in a CSV file, as text, with the lines that they stand in.

Columns are parted by commas, semicolons or tabs, whichever parts the first line into
most names. Blanks around cells and empty lines are of no meaning. A quotation mark that
is opened and not closed is refused: it would swallow the rows after it.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self, TextIO, final

import numpy as np
from numpy.typing import NDArray

from tepui.core.checks import require
from tepui.data.files.cell_numbers import numbers_in
from tepui.data.files.origins import require_file
from tepui.data.files.table_faults import Fault, refuse

DELIMITERS = (",", ";", "\t")
# What stands for a value that is missing, in lower case.
MISSING = frozenset({"", "?", "na", "n/a", "nan", "null"})


@final
@dataclass(frozen=True)
class TableRows:
    """Cells of a table by column.

    Attributes:
        path: The file.
        cells: The cells of every column, by its name, in the order of the rows.
        lines: The line of the file that each row ends in, from 1.
    """

    path: Path
    cells: dict[str, list[str]]
    lines: list[int]
    _numbers: dict[str, NDArray[np.float64]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def __len__(self) -> int:
        return len(self.lines)

    def column(self, name: str) -> list[str]:
        """Return the cells of a column."""
        rule = f"have a column {name!r}"
        require(name in self.cells, str(self.path), rule, [*self.cells])
        return self.cells[name]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return the numbers of a column, NaN where a cell holds no finite number."""
        if name not in self._numbers:
            self._numbers[name] = numbers_in(self.column(name))
        return self._numbers[name]

    def missing(self, name: str) -> list[int]:
        """Return the rows in which a column says that there is no value."""
        cells, others = self.column(name), self.without_number(name)
        missing = {cell for cell in {cells[row] for row in others} if is_missing(cell)}
        return [row for row in others if cells[row] in missing] if missing else []

    def without_number(self, name: str) -> list[int]:
        """Return the rows in which a column holds no finite number."""
        return np.flatnonzero(np.isnan(self.numbers(name))).tolist()

    def fault(self, row: int, column: str, rule: str, hint: str = "") -> Fault:
        """Return what is wrong with a cell."""
        line, cell = self.lines[row], self.cells[column][row]
        return Fault(f"column {column!r} in line {line}", rule, cell, hint, line)

    def take(self, rows: list[int]) -> Self:
        """Return some of the rows."""
        return replace(
            self,
            cells={name: [c[row] for row in rows] for name, c in self.cells.items()},
            lines=[self.lines[row] for row in rows],
            _numbers={name: numbers[rows] for name, numbers in self._numbers.items()},
        )


def is_missing(cell: str) -> bool:
    """Return whether a cell says that there is no value."""
    return cell.lower() in MISSING


def read_table(path: Path) -> TableRows:
    """Read a CSV file whose first line names the columns.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is not text, has no rows, names a column twice, a quotation
            mark is not closed, or a row has more or fewer cells than there are columns.
    """
    require_file(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = next((line for line in file if line.strip()), "")
            file.seek(0)
            rows = list(_numbered(path, file, _delimiter(first)))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be a table in UTF-8 text: {error}") from error
    require(len(rows) > 1, str(path), "hold names of columns and rows", "none")
    (_, names), *body = rows
    _check_names(path, names)
    rule = f"have {len(names)} cells, as many as there are columns"
    counts = ((line, len(cells)) for line, cells in body if len(cells) != len(names))
    refuse(path, [Fault(f"line {n}", rule, count, line=n) for n, count in counts])
    columns = map(list, zip(*(cells for _, cells in body), strict=True))
    by_name = dict(zip(names, columns, strict=True))
    return TableRows(path, by_name, [line for line, _ in body])


def _numbered(
    path: Path, file: TextIO, delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """Yield rows that are not empty, with the lines that they end in."""
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    begins = 1
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                yield reader.line_num, cells
            begins = reader.line_num + 1
    except csv.Error as error:
        rule = "be a row whose quotation marks are closed at the ends of cells"
        raise ValueError(f"line {begins} of {path} must {rule}: {error}") from error


def _delimiter(first: str) -> str:
    """Return what parts the names of the first line.

    Example:
        >>> _delimiter('age;"height, cm";city')
        ';'
    """
    return max(
        DELIMITERS, key=lambda sign: len(next(csv.reader([first], delimiter=sign)))
    )


def _check_names(path: Path, names: Sequence[str]) -> None:
    rule = "give every column a name of its own in its first line"
    twice = sorted({name for name in names if names.count(name) > 1 or not name})
    require(not twice, str(path), rule, twice)
