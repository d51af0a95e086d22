"""The cells of a table in a CSV file, as text, with the lines that they stand in.

Columns are parted by commas, semicolons or tabs, whichever parts the first line into
most names. Blanks around cells and empty lines are of no meaning. A quotation mark that
is opened and not closed is refused: it would swallow the rows after it.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self, TextIO, final

import numpy as np
from numpy.typing import NDArray

from tepui.data.files.cell_numbers import numbers_in
from tepui.data.files.published import require_file
from tepui.data.files.table_faults import Fault, refuse

DELIMITERS = (",", ";", "\t")
# Characters of a line that a message shows.
MOST_SHOWN = 60
# How the reader's error begins where a cell is longer than it takes.
TOO_LONG = "field larger than field limit"
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
        faults: Lines of the file that cannot be read, and are left out.
    """

    path: Path
    cells: dict[str, list[str]]
    lines: list[int]
    faults: tuple[Fault, ...] = ()
    _numbers: dict[str, NDArray[np.float64]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def __len__(self) -> int:
        return len(self.lines)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return the numbers of a column, NaN where a cell holds no finite number."""
        if name not in self._numbers:
            self._numbers[name] = numbers_in(self.cells[name])
        return self._numbers[name]

    def missing(self, name: str) -> list[int]:
        """Return the rows in which a column says that there is no value."""
        cells, others = self.cells[name], self.without_number(name)
        missing = {cell for cell in {cells[row] for row in others} if is_missing(cell)}
        return [row for row in others if cells[row] in missing] if missing else []

    def without_number(self, name: str) -> list[int]:
        """Return the rows in which a column holds no finite number."""
        return np.flatnonzero(np.isnan(self.numbers(name))).tolist()

    def fault(self, row: int, column: str, rule: str, hint: str = "") -> Fault:
        """Return what is wrong with a cell."""
        cell = self.cells[column][row]
        return Fault(self.path, rule, cell, hint, column, self.lines[row])

    def absent(self, columns: Iterable[str]) -> list[Fault]:
        """Return which columns are not there, all of them as one fault, if any."""
        names = [name for name in columns if name not in self.cells]
        named = ", ".join(map(repr, names))
        rule = f"have columns {named}" if len(names) > 1 else f"have a column {named}"
        return [Fault(self.path, rule, [*self.cells])] if names else []

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

    Lines that cannot be read are left out, and are faults of the rows: who takes the
    rows refuses these together with what else is wrong. Where they are as many as the
    rows, these say nothing of their columns, and are refused here.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is not text, has no rows, half of its lines cannot be read, or
            it names a column twice or not at all.
    """
    require_file(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = next((line for line in file if line.strip()), "")
            file.seek(0)
            rows, faults, lost = _numbered(path, file, _delimiter(first))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be a table in UTF-8 text: {error}") from error
    if not rows or any(fault.line <= rows[0][0] for fault in faults):
        refuse([path], faults or [_none(path)])
    (_, names), *body = rows
    wrong = _faults_of_names(path, names)
    rule = f"have {len(names)} cells, as many as there are columns"
    counts = [(line, len(cells)) for line, cells in body if len(cells) != len(names)]
    faults += wrong + [Fault(path, rule, count, line=line) for line, count in counts]
    whole = [row for row in body if len(row[1]) == len(names)] if counts else body
    if wrong or lost + len(counts) >= len(whole):
        refuse([path], faults or [_none(path)])
    columns = map(list, zip(*(cells for _, cells in whole), strict=True))
    by_name = dict(zip(names, columns, strict=True))
    return TableRows(path, by_name, [line for line, _ in whole], tuple(faults))


def _none(path: Path) -> Fault:
    return Fault(path, "hold names of columns and rows", "none")


def _numbered(
    path: Path, file: TextIO, delimiter: str
) -> tuple[list[tuple[int, list[str]]], list[Fault], int]:
    """Return rows that are not empty, with the lines that they end in.

    With them faults, and how many lines cannot be read for these.
    """
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    rows: list[tuple[int, list[str]]] = []
    broken: dict[int, str] = {}
    lost = 0
    while True:
        begins = reader.line_num + 1
        try:
            for row in reader:
                cells = [cell.strip() for cell in row]
                if any(cells):
                    rows.append((reader.line_num, cells))
                begins = reader.line_num + 1
        except csv.Error as error:
            swallowed = reader.line_num + 1 - begins
            broken[begins] = _broken_rule(str(error), swallowed)
            lost += swallowed
            continue
        return rows, _faults_of_lines(path, file, broken) if broken else [], lost


def _broken_rule(error: str, lines: int) -> str:
    """Return what a row should be in whose lines the reader failed."""
    marks = "be a row whose quotation marks are closed at the ends of cells"
    if not error.startswith(TOO_LONG):
        return f"{marks} ({error})"
    most = f"{csv.field_size_limit()} characters"
    if lines == 1:
        return f"be a row of cells with at most {most}"
    return f"{marks} (one is not closed within {most})"


def _faults_of_lines(path: Path, file: TextIO, rules: Mapping[int, str]) -> list[Fault]:
    """Return rows that no reader understands, by their first lines."""
    file.seek(0)
    return [
        Fault(path, rules[line], text.strip()[:MOST_SHOWN], line=line)
        for line, text in enumerate(file, 1)
        if line in rules
    ]


def _delimiter(first: str) -> str:
    """Return what parts the names of the first line.

    Example:
        >>> _delimiter('age;"height, cm";city')
        ';'
    """
    return max(DELIMITERS, key=lambda sign: _parts(first, sign))


def _parts(first: str, sign: str) -> int:
    """Return how many names a sign makes of a line; none if one is too long."""
    try:
        return len(next(csv.reader([first], delimiter=sign)))
    except csv.Error:
        return 0


def _faults_of_names(path: Path, names: Sequence[str]) -> list[Fault]:
    rule = "give every column a name of its own in its first line"
    twice = sorted({name for name in names if names.count(name) > 1 or not name})
    return [Fault(path, rule, twice)] if twice else []
