"""What of a table's rows the training rows do not explain."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, final

from tepui.data.files.table_rows import TableRows


@final
@dataclass(frozen=True)
class TableGaps:
    """Cells that a model sees as zeros or means, by column; printing it says how many.

    Attributes:
        unknown_words: The rows, from 0, that hold a word which the training rows do
            not, by the name of the column.
        filled: The rows in which a missing value was filled, by the name of the column.
        words: What to say of them, a sentence each.
    """

    unknown_words: Mapping[str, list[int]]
    filled: Mapping[str, list[int]]
    words: tuple[str, ...]

    @classmethod
    def of(
        cls,
        rows: TableRows,
        unknown_words: Mapping[str, list[int]],
        filled: Mapping[str, list[int]],
    ) -> Self:
        """Return the gaps in some rows, columns without any left out."""
        unknown, empty = _some(unknown_words), _some(filled)
        words = []
        if unknown:
            counts = (
                f"{len(found)} in {name} ({rows.cells[name][found[0]]!r} in line "
                f"{rows.lines[found[0]]})"
                for name, found in unknown.items()
            )
            what = "words that the training rows do not have, seen as none of theirs"
            words.append(f"{what}: {', '.join(counts)}")
        if empty:
            counts = (
                f"{len(found)} in {name} (line {rows.lines[found[0]]})"
                for name, found in empty.items()
            )
            what = (
                "missing values, numbers filled by the mean of the training rows, "
                "words seen as none of theirs"
            )
            words.append(f"{what}: {', '.join(counts)}")
        return cls(unknown, empty, tuple(words))

    def __str__(self) -> str:
        return "\n".join(self.words) or "no unknown words, no missing values"


def _some(by_column: Mapping[str, list[int]]) -> dict[str, list[int]]:
    return {name: rows for name, rows in by_column.items() if rows}
