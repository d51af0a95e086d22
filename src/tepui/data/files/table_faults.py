"""What is wrong with a table, all of it in one error."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tepui.core.listed import MOST, listed


class Fault(NamedTuple):
    """A cell, a line, a column or a file that breaks a rule.

    Attributes:
        path: The file.
        rule: What must hold there, to follow the word "must".
        value: What is there instead.
        hint: What may be done about it.
        column: Name of the column; empty for a line or a file as a whole.
        line: The line of the file, from 1; 0 for a column or a file as a whole.
    """

    path: Path
    rule: str
    value: object
    hint: str = ""
    column: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        """Where in the file; empty for the file as a whole."""
        named = [f"column {self.column!r}"] if self.column else []
        return " in ".join([*named, *([f"line {self.line}"] if self.line else [])])

    def said(self, file: str) -> str:
        """Return it in words, with what the file is called there; none if empty."""
        where = " of ".join(part for part in (self.place, file) if part)
        return f"{where or 'it'} must {self.rule}"


def refuse(
    files: Sequence[Path], faults: Sequence[Fault], arguments: Sequence[str] = ()
) -> None:
    r"""Raise one ``ValueError`` that names all faults in the order of lines, if any.

    Of many, ten are shown: first of all one of each rule in each column.

    Args:
        files: The files of the table, all in one folder.
        faults: What is wrong in them.
        arguments: What is wrong with the arguments that name their columns, in words.

    Example:
        >>> file = Path("my.csv")
        >>> short = [Fault(file, "have 2 cells", 1, line=n) for n in (3, 4)]
        >>> refuse([file], short[:1])
        Traceback (most recent call last):
        ValueError: line 3 of my.csv must have 2 cells, got 1
        >>> refuse([file], short)
        Traceback (most recent call last):
        ValueError: my.csv must be a table that can be read, got 2 faults:
          line 3 must have 2 cells, got 1
          line 4 must have 2 cells, got 1
    """
    count = len(faults) + len(arguments)
    if count == 0:
        return
    if count == 1 and arguments:
        raise ValueError(arguments[0])
    if count == 1:
        (only,) = faults
        advice = f" ({only.hint})" if only.hint else ""
        raise ValueError(f"{only.said(str(only.path))}{advice}, got {only.value!r}")
    places = {fault.path for fault in faults} or {*files}
    alone = len(places) == 1
    ordered = sorted(faults, key=lambda each: (files.index(each.path), each.line))
    shown, others = _parted(ordered, MOST - len(arguments))
    lines = [
        f"{each.said('' if alone else each.path.name)}, got {each.value!r}"
        for each in (*shown, *others)
    ]
    hints = dict.fromkeys(each.hint for each in ordered if each.hint)
    advice = "".join(f"\n  ({hint})" for hint in hints)
    rule = "with the columns that are named" if arguments else "that can be read"
    told = f"{listed([*arguments, *lines])}{_elsewhere(shown, others)}{advice}"
    where = places.pop() if alone else files[0].parent
    raise ValueError(f"{where} must be a table {rule}, got {count} faults:{told}")


def _parted(
    faults: Sequence[Fault], most: int
) -> tuple[Sequence[Fault], Sequence[Fault]]:
    """Return the faults to show, one of each kind before others, and the rest."""
    kinds: dict[tuple[Path, str, str], int] = {}
    for number, each in enumerate(faults):
        kinds.setdefault((each.path, each.column, each.rule), number)
    first = {*kinds.values()}
    chosen = sorted(range(len(faults)), key=lambda number: number not in first)[:most]
    kept = {*chosen}
    others = [each for number, each in enumerate(faults) if number not in kept]
    return [faults[number] for number in sorted(kept)], others


def _elsewhere(shown: Sequence[Fault], others: Sequence[Fault]) -> str:
    """Return the columns that have faults of which none is shown, in words."""
    seen = {each.column for each in shown} | {""}
    names = dict.fromkeys(each.column for each in others if each.column not in seen)
    return f"\n  (columns, too: {', '.join(map(repr, names))})" if names else ""
