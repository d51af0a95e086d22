"""Your own table: a CSV file whose first line names the columns.

``path`` is the file, of whose rows a fixed fifth (of each class) is the test part; or a
folder with ``train.csv`` and ``test.csv``. What is learned of the columns, their words,
means and standard deviations, comes from the training rows alone.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, final, get_args

from torch import Tensor

from tepui.core.checks import not_among, one_of
from tepui.core.seeding import derive
from tepui.core.types import check_types
from tepui.data.arrays import Normalize
from tepui.data.columns import Columns, Missing
from tepui.data.files.image_folder import TEST_SHARE
from tepui.data.files.table_dates import warn_of_dates
from tepui.data.files.table_faults import Fault, refuse
from tepui.data.files.table_gaps import TableGaps
from tepui.data.files.table_rows import TableRows, read_table
from tepui.data.files.table_target import Kind, Target, target_of
from tepui.data.made_arrays import MadeArrays

# Names of columns that printing a table shows.
MOST_SHOWN = 8


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
        file: The file that the rows are in.
        lines: The line of the file that each row ends in, from 1; of a part those of
            the whole.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a column is unknown, or a line, a column or the target holds what
            cannot be read, be it in the other part. The message names all that is known
            to be wrong: ten places, one of each kind first, and how many more.

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
    file: Path
    lines: tuple[int, ...]

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
        files = _files(Path(path))
        _check_named(files, target, ignore)
        read = _read(files, target, ignore, kind, missing)
        if train:
            warn_of_dates(read.columns.columns)
        part = read.learned if train else read.tested
        super().__init__(part.inputs, part.targets, classes=read.target.classes or ())
        object.__setattr__(self, "columns", read.columns)
        object.__setattr__(self, "scaling", read.scaling)
        object.__setattr__(self, "units", read.units)
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "gaps", read.columns.gaps(part.rows))
        object.__setattr__(self, "file", part.rows.path)
        object.__setattr__(self, "lines", tuple(part.rows.lines))

    def rows_of(self, path: str | Path) -> "Table":
        """Return all rows of another file, read as those of this table.

        Words, means and standard deviations are those of this table's training rows:
        validation data in a file of their own mean what training data mean.

        Args:
            path: A ``.csv`` file with the same columns, the target among them; others
                are ignored.

        Returns:
            The rows, in their order.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If columns are missing, or lines, cells or targets cannot be
                read; the message names all of them.
        """
        check_types(Table.rows_of, {"path": path})
        learned = self.columns, self.scaling, self.units
        return rows_as(read_table(Path(path)), self.target, self.classes, *learned)

    def __repr__(self) -> str:
        names = [column.name for column in self.columns.columns]
        shown = ", ".join(names[:MOST_SHOWN]) + (", …" if names[MOST_SHOWN:] else "")
        classes = f"{len(self.classes)} classes"
        return (
            f"Table({len(self)} rows, {len(names)} columns ({shown}), "
            f"target {self.target} ({'numbers' if self.units else classes}))"
        )


def rows_as(
    rows: TableRows,
    target: str,
    classes: Sequence[str],
    columns: Columns,
    scaling: Normalize,
    units: Normalize | None,
) -> Table:
    """Return rows of a file with their targets, read as training rows were.

    Args:
        rows: What was read of the file.
        target: Name of the column to predict.
        classes: Its classes; empty of numbers.
        columns: What the other columns hold.
        scaling: Mean and standard deviation of every input in the training rows.
        units: The same of the numbers to predict; None of classes.

    Raises:
        ValueError: If columns are missing, or lines, cells or targets cannot be read.
    """
    goal = Target(target, tuple(classes) or None)
    faults = [*rows.faults, *goal.faults(rows), *columns.faults(rows)]
    broken = {fault.column for fault in faults}
    inputs, far = columns.standardized(rows, scaling, broken)
    targets, far_targets = goal.standardized(rows, units, broken)
    refuse([rows.path], faults + far + far_targets)
    table = Table.__new__(Table)
    super(Table, table).__init__(inputs, targets, classes=tuple(classes))
    for name, value in {
        "columns": columns,
        "scaling": scaling,
        "units": units,
        "target": target,
        "gaps": columns.gaps(rows),
        "file": rows.path,
        "lines": tuple(rows.lines),
    }.items():
        object.__setattr__(table, name, value)
    return table


class _Part(NamedTuple):
    """Some rows of a table, and what a model sees of them."""

    rows: TableRows
    inputs: Tensor
    targets: Tensor


class _Read(NamedTuple):
    """Both parts of a table, and what the training rows say of its columns."""

    learned: _Part
    tested: _Part
    columns: Columns
    target: Target
    scaling: Normalize
    units: Normalize | None


def _files(source: Path) -> tuple[TableRows, ...]:
    """Return the rows of a file, or of both files of a folder."""
    if not source.is_dir():
        return (read_table(source),)
    return tuple(read_table(source / f"{part}.csv") for part in ("train", "test"))


def _check_named(
    files: Sequence[TableRows], target: str, ignore: Sequence[str]
) -> None:
    """Check that columns that arguments name are there.

    Without them nothing is known of cells: a column might be the target, or ignored.
    Names may hold commas, so none parts a word.
    """
    known = files[0].cells
    said = [] if target in known else [not_among("target", [target], known)]
    unknown = []
    for name in (name for name in ignore if name not in known):
        several = [part.strip() for part in name.strip("[]").split(",")]
        meant = [part for part in several if part]
        if meant and {*meant} <= known.keys():
            rule = f"have a word for each column ({shlex.join(meant)})"
            said.append(f"ignore must {rule}, got {name!r}")
        else:
            unknown.append(name)
    if unknown:
        said.append(not_among("ignore", unknown, known))
    if said:
        faults = [fault for rows in files for fault in rows.faults]
        refuse([rows.path for rows in files], faults, said)


def _read(
    files: Sequence[TableRows],
    name: str,
    ignore: Sequence[str],
    kind: Kind | None,
    missing: Missing,
) -> _Read:
    """Return both parts, if nothing is wrong with either."""
    paths = [rows.path for rows in files]
    target, faults = target_of(files[0], name, kind)
    faults += [fault for rows in files for fault in rows.faults]
    faults += [fault for rows in files[1:] for fault in target.faults(rows)]
    names = [each for each in files[0].cells if each not in (name, *ignore)]
    if not names:
        rule = "hold columns beside the target"
        faults.append(Fault(paths[0], rule, "none"))
    parts = _divided(files[0], target) if len(files) == 1 else files
    if not names or parts is None:
        refuse(paths, faults or [_too_few(files[0], target)])
    assert parts is not None
    columns, wrong = Columns.learned(parts[0], names, missing)
    faults += wrong
    faults += [f for rows in parts for f in columns.faults(rows, ", as in most rows")]
    if not columns.columns:
        refuse(paths, faults)
    broken = {fault.column for fault in faults}
    scaling = columns.scaling(parts[0], broken)
    numbers = target.classes is None
    units = target.column.scaling(parts[0], broken) if numbers else None
    if numbers and not faults:
        faults += target.constant(parts[0])
    seen = []
    for rows in parts:
        inputs, far = columns.standardized(rows, scaling, broken)
        targets, far_targets = target.standardized(rows, units, broken)
        faults += far + far_targets
        seen.append(_Part(rows, inputs, targets))
    refuse(paths, faults)
    learned, tested = seen
    return _Read(learned, tested, columns, target, scaling, units)


def _divided(rows: TableRows, target: Target) -> tuple[TableRows, TableRows] | None:
    """Return training and test rows; None where there are too few for both."""
    chosen = set(_test_rows(_groups(rows, target)))
    if not 0 < len(chosen) < len(rows):
        return None
    learned = rows.take([row for row in range(len(rows)) if row not in chosen])
    return learned, rows.take(sorted(chosen))


def _groups(rows: TableRows, target: Target) -> list[str]:
    """Return what each row is grouped by: its class, if it has one."""
    return [""] * len(rows) if target.classes is None else rows.cells[target.name]


def _too_few(rows: TableRows, target: Target) -> Fault:
    rule = "leave at least one row in each part"
    return Fault(rows.path, rule, _described(rows, _groups(rows, target)))


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
