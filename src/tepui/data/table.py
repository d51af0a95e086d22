"""Your own table and the column to predict: a CSV, Parquet or Excel file, or a frame.

pandas reads it. A fixed fifth of the rows (of each class) is the test part; a folder
holds ``train`` and ``test`` files instead. What is learned of the columns, their words,
means and standard deviations, comes from the training rows only.
"""

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, final, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tepui.core.checks import not_among, one_of, require
from tepui.core.extras import extra
from tepui.core.seeding import derive
from tepui.core.types import check_types
from tepui.data.arrays import MadeArrays, Normalize
from tepui.data.columns import (
    MISSING,
    Cells,
    Column,
    DataFrame,
    count_rows,
    kind_of,
    learned,
    numbers_in,
    plain,
    refuse,
    standardized,
    words_in,
)
from tepui.data.image_folders import fifth_of
from tepui.data.labels import NO_LABEL
from tepui.data.published import require_file

DELIMITERS = (",", ";", "\t")
ENDINGS = (".csv", ".parquet", ".xlsx")
# Whole numbers of more different values than that are no names of classes.
MOST_CLASSES = 20
# Names of columns that printing a table shows.
MOST_SHOWN = 8
Kind = Literal["classes", "numbers"]


@final
class Table(MadeArrays):
    r"""Rows of a table, and the column to predict.

    Numbers are standardized, dates are numbers of days. Words, booleans and categories
    become zeros and ones, one for each word of the training rows. A missing number is
    the mean of the training rows; if these lack values in a column, one more zero or
    one says where. Numbers to predict are standardized too, which keeps training stable
    whatever their unit is: ``units`` leads back.

    Args:
        path: A file (``.csv``, ``.parquet`` or ``.xlsx``), a folder with ``train`` and
            ``test`` files of one kind, or a ``pandas.DataFrame``.
        target: Name of the column to predict.
        train: The training part if true, else the test part.
        ignore: Names of columns that a model is not to see.
        kind: Whether the target holds classes or numbers. By default numbers if cells
            are numbers with fractions or of more than 20 different values.
        keep: Names of columns to learn from although they look like row numbers.

    Attributes:
        columns: What the columns hold.
        scaling: Mean and standard deviation of every input in the training rows, by
            which inputs are standardized.
        units: Mean and standard deviation of the numbers to predict in the training
            rows; None of classes.
        target: Name of the column to predict.
        frame: The rows as pandas reads them, by their places in the file from 0; of a
            part those of the whole.
        remarks: Sentences about words of these rows that the training rows do not have,
            missing values, and columns that were not learned; of a part those of the
            whole.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If pandas cannot read the file; or a column is unknown, looks like
            row numbers, or holds what cannot be read.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "my.csv")
        ...     _ = file.write_text("size,color,sold" + 9 * "\n1,red,no\n2,blue,yes")
        ...     data = Table(file, "sold")
        >>> len(data), data.inputs.shape, data.classes
        (14, torch.Size([14, 3]), ('no', 'yes'))
    """

    columns: tuple[Column, ...]
    scaling: Normalize
    units: Normalize | None
    target: str
    frame: DataFrame
    remarks: tuple[str, ...]

    def __init__(
        self,
        path: str | Path | DataFrame,
        target: str,
        train: bool = True,
        ignore: tuple[str, ...] = (),
        kind: Kind | None = None,
        keep: tuple[str, ...] = (),
    ) -> None:
        given = {"target": target, "train": train, "ignore": ignore, "keep": keep}
        check_types(Table.__init__, given)
        if kind is not None:
            one_of("kind", kind, get_args(Kind))
        parts = _files(path)
        rows, place = parts[0]
        one_of("target", target, rows)
        for argument, names in (("ignore", ignore), ("keep", keep)):
            if unknown := [name for name in names if name not in rows]:
                raise ValueError(not_among(argument, unknown, rows))
        classes = _classes_in(rows[target], kind, place)
        seen = [name for name in rows if name not in (target, *ignore)]
        columns = [Column(name, kind_of(rows[name])) for name in seen]
        require(len(columns) > 0, place, "hold columns beside the target", [*rows])
        values = [column.read(rows[column.name], place) for column in columns]
        for column, cells in zip(columns, values, strict=True):
            rule = "be left out (ignore), or named (keep) if it says more than the "
            rule += "order of the rows"
            counts = column.name not in keep and count_rows(column, cells)
            said = f"column {column.name!r} of {place}"
            require(not counts, said, rule, f"{column.kind}s in order")
        first = np.arange(len(rows))
        if len(parts) == 1:
            first, second = _divided(rows[target], classes, place)
            parts = [(rows.iloc[first], place), (rows.iloc[second], place)]
        found, scaling = learned(columns, [cells[first] for cells in values], place)
        units = None
        if classes is None:
            numbers = numbers_in(rows[target], place)[first]
            rule = "hold two different numbers to predict in the training rows"
            said = f"column {target!r} of {place}"
            require(len({*numbers}) > 1, said, rule, numbers[0])
            _, units = learned([Column(target, "number")], [numbers], place)
        how = target, classes or (), found, scaling, units
        made = [rows_as(part, *how, known=ignore) for part in parts]
        vars(self).update(vars(made[0 if train else 1]))

    def rows_of(self, path: str | Path | DataFrame) -> "Table":
        """Return all rows of another file, read as those of this table.

        Words, means and standard deviations are those of this table's training rows:
        validation data in a file of their own mean what training data mean.

        Args:
            path: A file or frame with the same columns, the target among them; others
                are ignored.

        Returns:
            The rows, in their order.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If columns are missing, or cells cannot be read.
        """
        how = self.classes, self.columns, self.scaling, self.units
        return rows_as(read_frame(path), self.target, *how)


def rows_as(
    read: tuple[DataFrame, str],
    target: str,
    classes: Sequence[str],
    columns: tuple[Column, ...],
    scaling: Normalize,
    units: Normalize | None,
    targets: bool | None = True,
    known: Sequence[str] = (),
) -> Table:
    """Return rows of a table, read as training rows were.

    Args:
        read: The rows, and what they are called in a message.
        target: Name of the column to predict.
        classes: Its classes; empty of numbers.
        columns: What the other columns hold.
        scaling: Mean and standard deviation of every input in the training rows.
        units: The same of the numbers to predict; None of classes.
        targets: Whether the rows have targets, -1 without; None looks for the column.
        known: Further columns, of which nothing is said.

    Raises:
        ValueError: If columns are missing, or cells or targets cannot be read.
    """
    frame, place = read
    inputs, remarks = standardized(columns, scaling, frame, place)
    if targets is None:
        targets = target in frame
    labels = torch.full((len(frame),), NO_LABEL)
    if targets:
        require(target in frame, place, f"have a column {target!r}", [*frame])
        labels = _targets(frame[target], place, classes, units)
    seen = {column.name for column in columns} | {target, *known}
    if further := [name for name in frame if name not in seen]:
        said = f"columns that were not learned: {_first(further)}"
        remarks = (*remarks, said)
    table = Table.__new__(Table)
    super(Table, table).__init__(inputs, labels, classes=tuple(classes))
    about = {"columns": columns, "scaling": scaling, "units": units, "target": target}
    vars(table).update(about | {"frame": frame, "remarks": remarks})
    return table


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_SHOWN]) + (", …" if names[MOST_SHOWN:] else "")


def is_frame(source: object) -> bool:
    """Return whether something is a ``pandas.DataFrame``."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(source, pandas.DataFrame)


def read_frame(source: str | Path | DataFrame) -> tuple[DataFrame, str]:
    """Return a table as pandas reads it, and what it is called in a message.

    Of a CSV file, the sign between columns is the comma, semicolon or tab that the
    first line has most of. Control characters in names become blanks.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If pandas cannot read it, it has no rows, or two columns have one
            name.
    """
    pandas = extra("pandas", "tables")
    frame: DataFrame = source
    place = "the table"
    if not is_frame(source):
        rule = "be a path or a pandas.DataFrame"
        require(isinstance(source, str | Path), "path", rule, source)
        path, place = Path(source), str(source)
        require_file(path)
        readers = {".parquet": pandas.read_parquet, ".xlsx": pandas.read_excel}
        try:
            frame = readers.get(path.suffix.lower(), _read_csv)(path)
        except Exception as error:  # a damaged file can fail in any way
            why = plain(str(error).strip().partition("\n")[0]) or type(error).__name__
            raise ValueError(f"{path} must be a table: {why}") from error
    frame = frame.reset_index(drop=True).set_axis([*map(plain, frame)], axis=1)
    require(len(frame) > 0, place, "hold rows", 0)
    rule = "give every column a name of its own"
    require(frame.columns.is_unique, place, rule, [*frame])
    return frame, place


def _read_csv(path: Path) -> DataFrame:
    pandas = extra("pandas", "tables")
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        first = next((line for line in file if line.strip()), "")
    with warnings.catch_warnings():  # of rows that are longer than the first line
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        return pandas.read_csv(
            path,
            sep=max(DELIMITERS, key=first.count),
            skipinitialspace=True,
            index_col=False,
            na_values=["?"],
            low_memory=False,
        )


def _files(source: str | Path | DataFrame) -> list[tuple[DataFrame, str]]:
    """Return the rows of a file, or those of both files of a folder."""
    folder = Path(source) if isinstance(source, str | Path) else None
    if folder is None or not folder.is_dir():
        return [read_frame(source)]
    endings = [end for end in ENDINGS if (folder / f"train{end}").exists()]
    ending = endings[0] if endings else ENDINGS[0]
    return [read_frame(folder / f"{part}{ending}") for part in ("train", "test")]


def _classes_in(cells: Cells, kind: Kind | None, place: str) -> tuple[str, ...] | None:
    """Return the classes of a column to predict; None if it holds numbers."""
    pandas, words = extra("pandas", "tables"), words_in(cells)
    refuse(cells, words == MISSING, place, "hold a value in every row")
    names = {*words}
    numeric = kind_of(cells) == "number"
    fractions = numeric and (pandas.to_numeric(cells, errors="coerce") % 1 > 0).any()
    few = len(names) <= MOST_CLASSES and not fractions
    if kind == "numbers" or (kind is None and numeric and not few):
        return None
    rule = "hold at least two classes"
    require(len(names) > 1, f"column {cells.name!r} of {place}", rule, [*names])
    return tuple(sorted(names, key=_usual_order))


def _usual_order(name: str) -> tuple[bool, float, str]:
    """Return a sort key: numbers by their size, then words by their letters."""
    try:
        return False, float(name), name
    except ValueError:
        return True, 0.0, name


def _targets(
    cells: Cells, place: str, classes: Sequence[str], units: Normalize | None
) -> Tensor:
    """Return the numbers of classes, or standardized numbers to predict."""
    if units is not None:
        numbers = numbers_in(cells, place)
        refuse(cells, np.isnan(numbers), place, "hold a value in every row")
        return units(torch.tensor(numbers)[:, None])[:, 0].float()
    labels = extra("pandas", "tables").Index(classes).get_indexer(words_in(cells))
    refuse(cells, labels < 0, place, "hold classes of the training rows")
    return torch.from_numpy(labels).long()


def _divided(
    cells: Cells, classes: tuple[str, ...] | None, place: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return training and test rows: a fifth of each class, by their numbers only."""
    groups = [""] * len(cells) if classes is None else words_in(cells).tolist()
    keys = [derive(0, "table", row) for row in range(len(groups))]
    tested = np.zeros(len(groups), dtype=bool)
    tested[[*fifth_of(groups, keys)]] = True
    rule = "leave at least one row in each part"
    described = f"{len(groups)} rows in {len({*groups})} groups"
    require(0 < tested.sum() < len(tested), place, rule, described)
    return np.flatnonzero(~tested), np.flatnonzero(tested)
