"""What is wrong with a table, all of it in one error."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tepui.core.listed import listed


class Fault(NamedTuple):
    """A cell, a line or a column that breaks a rule.

    Attributes:
        place: Where, such as ``"column 'age' in line 4"``.
        rule: What must hold there, to follow the word "must".
        value: What is there instead.
        hint: What may be done about it.
        line: The line of the file, from 1; 0 for a whole column.
    """

    place: str
    rule: str
    value: object
    hint: str = ""
    line: int = 0


def refuse(path: Path, faults: Sequence[Fault]) -> None:
    r"""Raise one ``ValueError`` that names faults in the order of lines, if any.

    Example:
        >>> short = [Fault(f"line {n}", "have 2 cells", 1, line=n) for n in (3, 4)]
        >>> refuse(Path("my.csv"), short[:1])
        Traceback (most recent call last):
        ValueError: line 3 of my.csv must have 2 cells, got 1
        >>> refuse(Path("my.csv"), short)
        Traceback (most recent call last):
        ValueError: my.csv must be a table that can be read, got 2 faults:
          line 3 must have 2 cells, got 1
          line 4 must have 2 cells, got 1
    """
    if not faults:
        return
    if len(faults) == 1:
        place, rule, value, hint, _ = faults[0]
        advice = f" ({hint})" if hint else ""
        raise ValueError(f"{place} of {path} must {rule}{advice}, got {value!r}")
    ordered = sorted(faults, key=lambda fault: fault.line)
    lines = [f"{each.place} must {each.rule}, got {each.value!r}" for each in ordered]
    hints = dict.fromkeys(each.hint for each in ordered if each.hint)
    advice = "".join(f"\n  ({hint})" for hint in hints)
    rule = "be a table that can be read"
    raise ValueError(
        f"{path} must {rule}, got {len(faults)} faults:{listed(lines)}{advice}"
    )
