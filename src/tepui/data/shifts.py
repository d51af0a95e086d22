"""Test data that shifted: corrupted copies by type and severity, natural ones by name.

A natural shift (sketches of the same classes, another hospital, next year) has no
severity; where one is stored among copies, its severity is 0.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, final

import torch
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.data.loading import length

Cell = tuple[str, int]
NATURAL = 0  # the severity of what has none
# Names that tables and documents use for other data.
TAKEN = ("clean", "shifted", "corrupted")
_RULE = "map (type, severity), or names of natural shifts, to data sets"
_FREE = f"name no natural shift as other data are called ({', '.join(TAKEN)})"


@final
@dataclass(frozen=True, eq=False)
class Shifts(Mapping[Cell, Dataset[Any]]):
    """All shifted data of a test by type and severity; natural ones have severity 0."""

    copies: Mapping[Cell, Dataset[Any]]  # corrupted, perhaps made when asked for
    natural: Mapping[str, Dataset[Any]]

    def __post_init__(self) -> None:
        for name in self.natural:
            require(name not in TAKEN, "shifted", _FREE, name)

    @classmethod
    def of(cls, shifted: Mapping[Any, Dataset[Any]] | None) -> Self:
        """Return what a caller gave, natural shifts apart from corrupted copies.

        Example:
            >>> shifts = Shifts.of({"sketch": "a data set", ("fog", 3): "another"})
            >>> list(shifts)
            [('fog', 3), ('sketch', 0)]
        """
        if isinstance(shifted, cls):
            return shifted
        given: Mapping[Any, Dataset[Any]] = {} if shifted is None else shifted
        if not isinstance(given, Mapping):
            raise ValueError(f"shifted must {_RULE}, got {type(given).__name__}")
        for key in given:
            pair = isinstance(key, tuple) and len(key) == 2
            require(isinstance(key, str) or pair, "shifted", _RULE, key)
        names = [key for key in given if isinstance(key, str)]
        copies = {k: given[k] for k in given if k not in names} if names else given
        return cls(copies, {name: given[name] for name in names})

    def __getitem__(self, cell: Cell) -> Dataset[Any]:
        if cell in self.copies:
            return self.copies[cell]
        kind, severity = cell
        if severity != NATURAL or kind not in self.natural:
            raise KeyError(cell)
        return self.natural[kind]

    def __iter__(self) -> Iterator[Cell]:
        yield from self.copies
        yield from ((name, NATURAL) for name in self.natural)

    def __len__(self) -> int:
        return len(self.copies) + len(self.natural)

    @property
    def given(self) -> dict[str, Dataset[Any]]:
        """What a caller gave, by the words of an argument; no copy is made for it."""
        copies = self.copies if isinstance(self.copies, dict) else {}
        natural = {(name, NATURAL): data for name, data in self.natural.items()}
        return {named(cell): data for cell, data in {**copies, **natural}.items()}

    def check(self) -> None:
        """Raise if what a caller gave is no data set."""
        for argument, data in self.given.items():
            length(data, argument)

    def made_on(self, device: torch.device) -> Self:
        """Return the same, with copies that are made on a device where they can be."""
        make: Any = getattr(self.copies, "made_on", None)
        return self if make is None else replace(self, copies=make(device))


def named(cell: Cell) -> str:
    """Return a cell as an argument is written.

    Example:
        >>> named(("fog", 3)), named(("sketch", 0))
        ("shifted['fog', 3]", "shifted['sketch']")
    """
    kind, severity = cell
    return (
        f"shifted[{kind!r}]"
        if severity == NATURAL
        else f"shifted[{kind!r}, {severity}]"
    )
