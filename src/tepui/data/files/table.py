"""Your own table: a CSV file whose first line names the columns.

``path`` is the file, of whose rows a fixed fifth (of each class) is the test part; or a
folder with ``train.csv`` and ``test.csv``. What is learned of the columns, their words,
means and standard deviations, comes from the training rows alone.
"""

import itertools
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, final, get_args

import torch
from torch import Tensor

from tepui.core.checks import one_of, require
from tepui.core.seeding import derive
from tepui.core.types import check_types
from tepui.data.arrays import Normalize
from tepui.data.columns import Column, Columns, Missing, no_numbers, no_points
from tepui.data.files.cell_numbers import number_in
from tepui.data.files.image_folder import TEST_SHARE
from tepui.data.files.table_faults import refuse
from tepui.data.files.table_gaps import TableGaps
from tepui.data.files.table_rows import TableRows, is_missing, read_table
from tepui.data.made_arrays import MadeArrays

# Whole numbers of more different values than that are no names of classes.
MOST_CLASSES = 20
# Names of columns that printing a table shows.
MOST_SHOWN = 8
Kind = Literal["classes", "numbers"]


@final
class Table(MadeArrays):
    r"""Rows of a CSV file, and the column to predict.

    Columns of numbers are standardized; columns of words become zeros and ones, one for
    each word of the training rows. Numbers to predict are standardized too, which keeps
    training stable whatever their unit is: ``units`` leads back.

    Args:
        path: A ``.csv`` file, or a folder with ``train.csv`` and ``test.csv``.
        target: Name of the column to predict.
        train: The training part if true, else the test part.
        ignore: Names of columns that a model is not to see.
        kind: Whether the target holds classes or numbers. By default numbers where
            cells are numbers with fractions or of more than 20 different values.
        missing: Whether a missing value is refused, or filled: a number by the mean of
            the training rows, a word by none of the known ones.

    Attributes:
        columns: What the columns hold.
        scaling: Mean and standard deviation of every input in the training rows, by
            which inputs are standardized.
        units: Mean and standard deviation of the numbers to predict in the training
            rows; None of classes.
        target: Name of the column to predict.
        gaps: Words of these rows that the training rows do not have, and missing values
            that were filled; of a part (:func:`tepui.data.split`) those of the whole.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a column is unknown or holds what cannot be read; the message
            names columns and lines, the first ten and how many more there are.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "my.csv")
        ...     _ = file.write_text("size,color,sold" + 9 * "\n1,red,no\n2,blue,yes")
        ...     data = Table(file, "sold")
        >>> len(data), data.inputs.shape, data.classes
        (14, torch.Size([14, 3]), ('no', 'yes'))
    """

    columns: Columns
    scaling: Normalize
    units: Normalize | None
    target: str
    gaps: TableGaps

    def __init__(
        self,
        path: str | Path,
        target: str,
        train: bool = True,
        ignore: tuple[str, ...] = (),
        kind: Kind | None = None,
        missing: Missing = "refuse",
    ) -> None:
        given = {"path": path, "target": target, "train": train, "ignore": ignore}
        check_types(Table.__init__, given)
        for argument, value, known in (
            ("kind", kind, Kind),
            ("missing", missing, Missing),
        ):
            if value is not None:
                one_of(argument, value, get_args(known))
        learned, tested, classes = _parts(Path(path), target, kind)
        _check_ignored(ignore, learned)
        names = [name for name in learned.cells if name not in (target, *ignore)]
        beside = tested if tested.path == learned.path else None
        columns = Columns.learned(learned, names, missing, beside)
        scaling = columns.scaling(learned)
        units = None if classes else _alone(target).scaling(learned)
        rows = learned if train else tested
        inputs = columns.standardized(rows, scaling)
        targets = _targets(rows, target, classes, units)
        super().__init__(inputs, targets, classes=classes)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "scaling", scaling)
        object.__setattr__(self, "units", units)
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "gaps", columns.gaps(rows))

    def __repr__(self) -> str:
        names = [column.name for column in self.columns.columns]
        shown = ", ".join(names[:MOST_SHOWN]) + (", …" if names[MOST_SHOWN:] else "")
        classes = f"{len(self.classes)} classes"
        return (
            f"Table({len(self)} rows, {len(names)} columns ({shown}), "
            f"target {self.target} ({'numbers' if self.units else classes}))"
        )


def _check_ignored(ignore: Sequence[str], rows: TableRows) -> None:
    """Check that columns are there; names may hold commas, so none parts a word."""
    for name in ignore:
        several = [part.strip() for part in name.strip("[]").split(",")]
        meant = [part for part in several if part]
        if name not in rows.cells and meant and {*meant} <= rows.cells.keys():
            rule = f"have a word for each column ({shlex.join(meant)})"
            require(False, "ignore", rule, name)
        one_of("ignore", name, rows.cells)


def _parts(
    path: Path, target: str, kind: Kind | None
) -> tuple[TableRows, TableRows, tuple[str, ...]]:
    """Return training rows, test rows and the names of the classes, if any."""
    if path.is_dir():
        learned, tested = (
            read_table(path / f"{part}.csv") for part in ("train", "test")
        )
        return learned, tested, _classes(learned, target, kind)
    rows = read_table(path)
    classes = _classes(rows, target, kind)
    groups = rows.column(target) if classes else [""] * len(rows)
    chosen = set(_test_rows(groups))
    rule = "leave at least one row in each part"
    require(0 < len(chosen) < len(rows), str(path), rule, _described(rows, groups))
    learned = rows.take([row for row in range(len(rows)) if row not in chosen])
    return learned, rows.take(sorted(chosen)), classes


def _described(rows: TableRows, groups: Sequence[str]) -> str:
    """Return how many rows there are; of classes, each has too few to be divided."""
    described = f"{len(rows)} rows"
    if not any(groups):
        return described
    return f"{described} of {len({*groups})} classes, none of which has three rows"


def _test_rows(groups: Sequence[str]) -> list[int]:
    """Return a fifth of the rows of each group, by their numbers alone."""
    by_group: dict[str, list[int]] = {}
    for row, group in enumerate(groups):
        by_group.setdefault(group, []).append(row)
    return [
        row
        for rows in by_group.values()
        for row in sorted(rows, key=lambda row: derive(0, "table", row))[
            : round(TEST_SHARE * len(rows))
        ]
    ]


def _classes(rows: TableRows, target: str, kind: Kind | None) -> tuple[str, ...]:
    """Return the names of the classes in their order; none where numbers are meant."""
    one_of("target", target, rows.cells)
    cells = rows.column(target)
    faults = [rows.fault(row, target, "hold a value") for row in rows.missing(target)]
    known = {cell for cell in {*cells} if not is_missing(cell)}
    numbers = (kind or _kind_of(known)) == "numbers"
    if numbers:
        faults += no_numbers(rows, target)
    elif kind is None:
        faults += no_points(rows, target)
    refuse(rows.path, faults)
    if numbers:
        return ()
    names = sorted({*cells}, key=_usual_order)
    place, rule = f"column {target!r} of {rows.path}", "hold at least two classes"
    require(len(names) > 1, place, rule, names)
    same = [pair for pair in itertools.pairwise(names) if _are_one_number(*pair)]
    rule = "write a class that is a number in one way"
    require(not same, place, rule, same and " and ".join(same[0]))
    return tuple(names)


def _are_one_number(name: str, other: str) -> bool:
    return number_in(name) is not None and number_in(name) == number_in(other)


def _kind_of(cells: Iterable[str]) -> Kind:
    """Return what different cells are, as long as nobody says it.

    Example:
        >>> _kind_of(["yes", "no"]), _kind_of(["0", "1"]), _kind_of(["0.5", "1"])
        ('classes', 'classes', 'numbers')
    """
    numbers = [number_in(cell) for cell in cells]
    known = [number for number in numbers if number is not None]
    few = len(numbers) <= MOST_CLASSES and all(map(float.is_integer, known))
    return "classes" if few or len(known) < len(numbers) else "numbers"


def _usual_order(name: str) -> tuple[bool, float, str]:
    """Return a sort key: numbers by their size, then words by their letters."""
    number = number_in(name)
    return number is None, number or 0.0, name


def _targets(
    rows: TableRows, target: str, classes: tuple[str, ...], units: Normalize | None
) -> Tensor:
    if units is not None:
        return _alone(target).standardized(rows, units)[:, 0]
    numbers = {name: number for number, name in enumerate(classes)}
    cells = rows.column(target)
    unknown = {*cells} - numbers.keys()
    others = (row for row, cell in enumerate(cells) if unknown and cell in unknown)
    rule = "be a class of the training rows"
    refuse(rows.path, [rows.fault(row, target, rule) for row in others])
    return torch.tensor([numbers[cell] for cell in cells])


def _alone(target: str) -> Columns:
    """Return a column of numbers as the only one."""
    return Columns((Column(target),))
