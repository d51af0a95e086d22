"""How the columns of a table become the numbers that a model sees.

A column of numbers stays one number, and so does one of dates, in days since 1970. Any
other column holds words, booleans and categories among them, and becomes a zero or one
for each word of the training rows; another word is all zeros. A missing number is the
mean of the training rows, a missing word is all zeros; if training rows have gaps in a
column, one more zero or one says where.

What scikit-learn's scaler learns is kept as plain values: new rows are read
as the training rows were, whatever version is installed then.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tepui.core.checks import require
from tepui.core.extras import extra
from tepui.core.text import counted, printable
from tepui.data.arrays import Normalize

# A ``pandas.DataFrame`` and a column of one; pandas is optional and has no types.
DataFrame = Any
Cells = Any
Numbers = NDArray[np.float64]

# More different words than that are names or numbers that went wrong.
MOST_WORDS = 100
# In fewer rows than that, whole numbers may well be in order by chance.
FEWEST_ROWS = 10
# The word of a cell without a value.
MISSING = ""


@final
@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        name: What it is called.
        kind: What its cells hold.
        words: The words that have a zero or one each; empty for a missing value.
        fill: What takes the place of a missing number or date.
    """

    name: str
    kind: Literal["number", "date", "word"]
    words: tuple[str, ...] = ()
    fill: float = 0.0

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Read what a document holds."""
        return cls(**{**document, "words": tuple(document["words"])})

    @property
    def features(self) -> list[dict[str, Any]]:
        """What every number means that a model sees, for JSON.

        The name of the column, what its cells hold, the word that a zero or one stands
        for (None for a number itself), and what takes the place of a missing number.
        """
        number = [] if self.kind == "word" else [(None, self.fill)]
        return [
            {"column": self.name, "kind": self.kind, "word": word, "fill": fill}
            for word, fill in [*number, *((word, None) for word in self.words)]
        ]

    def read(self, cells: Cells, place: str) -> Any:
        """Return the cells of some rows: numbers with NaN, or words."""
        if self.kind == "word":
            return words_in(cells)
        return (days_in if self.kind == "date" else numbers_in)(cells, place)

    def encoded(self, values: Any) -> Numbers:
        """Return the numbers of all rows, ``(rows, features)``."""
        words, number = values, np.zeros((len(values), 0))
        if self.kind != "word":
            gaps = np.isnan(values)
            number = np.where(gaps, self.fill, values)[:, None]
            if not self.words:
                return number
            words = np.where(gaps, MISSING, "a number")
        places = extra("pandas", "tables").Index(self.words).get_indexer(words)
        # An unknown word, at -1, is all zeros.
        hot = np.eye(len(self.words) + 1)[places, :-1]
        return np.concatenate([number, hot], axis=1)


def plain(cell: object) -> str:
    r"""Return a cell or a name as a word that a terminal shows and does not obey.

    Example:
        >>> plain(2.0), plain(True), plain(" a\x1b[2J")
        ('2', 'True', 'a [2J')
    """
    whole = isinstance(cell, float) and cell.is_integer()
    return printable(f"{cell:.0f}" if whole else str(cell)).strip()


def words_in(cells: Cells) -> NDArray[np.object_]:
    """Return the words of a column, :data:`MISSING` for a cell without a value."""
    places, known = extra("pandas", "tables").factorize(cells)
    words = np.array([*map(plain, known), MISSING], dtype=object)
    found: NDArray[np.object_] = words[places]
    return found


def numbers_in(cells: Cells, place: str) -> Numbers:
    """Return the numbers of a column, NaN for a cell without a value."""
    found = extra("pandas", "tables").to_numeric(cells, errors="coerce")
    numbers: Numbers = found.to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = np.isinf(numbers) | (np.isnan(numbers) & cells.notna().to_numpy())
    refuse(cells, wrong, place, "hold finite numbers with a decimal point")
    return numbers


def days_in(cells: Cells, place: str) -> Numbers:
    """Return the dates of a column in days since 1970, NaN without a value."""
    dates = _dates(cells)
    wrong = (dates.isna() & cells.notna()).to_numpy()
    refuse(cells, wrong, place, "hold dates such as 2024-05-31")
    since = dates.dt.tz_convert(None).to_numpy().astype("datetime64[us]")
    days: Numbers = (since - np.datetime64(0, "us")) / np.timedelta64(1, "D")
    return days


def refuse(cells: Cells, wrong: NDArray[np.bool_], place: str, rule: str) -> None:
    """Raise an error that names the first of the cells that break a rule, if any."""
    if wrong.any():
        row = cells.index[wrong.argmax()]
        said = f"{plain(cells[row])!r} in row {row}"
        raise ValueError(f"column {cells.name!r} of {place} must {rule}, got {said}")


def kind_of(cells: Cells) -> Literal["number", "date", "word"]:
    """Return what most cells of a column are meant as.

    Numbers with decimal commas are meant as numbers.
    """
    pandas = extra("pandas", "tables")
    kinds = pandas.api.types
    if kinds.is_bool_dtype(cells) or isinstance(cells.dtype, pandas.CategoricalDtype):
        return "word"
    if kinds.is_numeric_dtype(cells) or kinds.is_datetime64_any_dtype(cells):
        return "number" if kinds.is_numeric_dtype(cells) else "date"
    known = cells.dropna().astype(str)
    points = known.str.replace(",", ".", n=1, regex=False)
    numbers = pandas.to_numeric(points, errors="coerce").notna()
    if 2 * numbers.sum() > len(known):
        return "number"
    return "date" if 2 * _dates(known).notna().sum() > len(known) else "word"


def count_rows(column: Column, values: Any) -> bool:
    """Return whether a column looks like row numbers, or dates in the order of rows.

    Example:
        >>> size = Column("size", "number")
        >>> [count_rows(size, 2.0 * np.arange(n)) for n in (9, 10)]
        [False, True]
    """
    if column.kind == "word" or len(values) < FEWEST_ROWS or np.isnan(values).any():
        return False
    steps = np.diff(values)
    if column.kind == "date":
        return bool(steps.any() and ((steps >= 0).all() or (steps <= 0).all()))
    every = (values % 1 == 0).all() and len(np.unique(values)) == len(values)
    ordered = (steps > 0).all() or (steps < 0).all()
    return bool(every and (ordered or np.ptp(values) == len(values) - 1))


def learned(
    columns: Sequence[Column], values: Sequence[Any], place: str
) -> tuple[tuple[Column, ...], Normalize]:
    """Return what training rows say of columns, and what standardizes their features.

    Args:
        columns: The columns, of which name and kind are known.
        values: What each of them holds in the training rows.
        place: What the table is called in a message.

    Raises:
        ValueError: If a column has no values, or too many different words.
    """
    from sklearn.preprocessing import StandardScaler

    gaps = [_gaps(cells) for cells in values]
    for column, missing in zip(columns, gaps, strict=True):
        rule = "hold values in the training rows (ignore leaves it out)"
        require(not missing.all(), f"column {column.name!r} of {place}", rule, "none")
    numeric = [v for c, v in zip(columns, values, strict=True) if c.kind != "word"]
    moments: Iterator[tuple[float, float]] = iter(())
    if numeric:
        scaler = StandardScaler().fit(np.column_stack(numeric))
        moments = zip(scaler.mean_.tolist(), scaler.scale_.tolist(), strict=True)
    found, mean, std = [], list[float](), list[float]()
    for column, cells, missing in zip(columns, values, gaps, strict=True):
        words: tuple[str, ...] = (MISSING,) if missing.any() else ()
        if column.kind == "word":
            words = tuple(sorted({*cells}))
            rule = f"hold numbers, dates such as 2024-05-31, or at most {MOST_WORDS} "
            rule += "different words (ignore leaves it out)"
            few = len(words) <= MOST_WORDS
            said = f"column {column.name!r} of {place}"
            require(few, said, rule, f"{len(words)}, such as {words[0]!r}")
            found.append(replace(column, words=words))
        else:
            middle, scale = next(moments)
            mean.append(middle)
            std.append(scale)
            found.append(replace(column, words=words, fill=middle))
        mean += [0.0] * len(words)
        std += [1.0] * len(words)
    return tuple(found), Normalize(tuple(mean), tuple(std))


def standardized(
    columns: Sequence[Column], scaling: Normalize, frame: DataFrame, place: str
) -> tuple[Tensor, tuple[str, ...]]:
    """Return what a model sees of some rows, and what they hold that is not known.

    Args:
        columns: What the columns hold.
        scaling: What standardizes their features.
        frame: The rows.
        place: What they are called in a message.

    Returns:
        The inputs ``(rows, features)``, and sentences about unknown words and missing
        values.

    Raises:
        ValueError: If a column is missing, or a cell cannot be read.
    """
    absent = [column.name for column in columns if column.name not in frame]
    rule = f"have {counted(len(absent), 'column')} more: {', '.join(absent)}"
    require(not absent, place, rule, [*frame])
    parts, unknown, filled = [], [], []
    for column in columns:
        cells = frame[column.name]
        values = column.read(cells, place)
        gaps = _gaps(values)
        parts.append(column.encoded(values))
        strange = (parts[-1] == 0).all(axis=1) & ~gaps
        if column.kind == "word" and strange.any():
            row = cells.index[strange.argmax()]
            first = f"{values[strange][0]!r} in row {row}"
            unknown.append(f"{int(strange.sum())} in {column.name} ({first})")
        if gaps.any():
            row = cells.index[gaps.argmax()]
            filled.append(f"{int(gaps.sum())} in {column.name} (row {row})")
    # Only what is standardized is rounded: dates in seconds would be all the same.
    seen = scaling(torch.from_numpy(np.concatenate(parts, axis=1))).float()
    rule = "hold numbers nearer to those of the training rows (a model has float32)"
    require(bool(seen.isfinite().all()), place, rule, "numbers too far")
    said = {
        "words that the training rows do not have, seen as none of theirs": unknown,
        "missing values, numbers filled by the mean of the training rows": filled,
    }
    return seen, tuple(f"{what}: {', '.join(of)}" for what, of in said.items() if of)


def _gaps(values: Any) -> NDArray[np.bool_]:
    """Return in which rows a column has no value."""
    missing: NDArray[np.bool_] = (
        values == MISSING if values.dtype == object else np.isnan(values)
    )
    return missing


def _dates(cells: Cells) -> Cells:
    pandas, how = extra("pandas", "tables"), {"errors": "coerce", "utc": True}
    if pandas.api.types.is_numeric_dtype(cells):  # no nanoseconds since 1970
        cells = cells.astype(str)
    return pandas.to_datetime(cells, format="ISO8601", **how)
