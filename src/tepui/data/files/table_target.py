"""The column of a table that is to be predicted: classes, or numbers."""

import itertools
from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from tepui.data.arrays import Normalize
from tepui.data.columns import Column, Columns, no_numbers, no_points
from tepui.data.files.cell_numbers import number_in
from tepui.data.files.table_faults import Fault
from tepui.data.files.table_rows import TableRows, is_missing

# Whole numbers of more different values than that are no names of classes.
MOST_CLASSES = 20
Kind = Literal["classes", "numbers"]


class Target(NamedTuple):
    """What a column to predict holds.

    Attributes:
        name: What it is called.
        classes: The names of its classes, in their order; None where it holds numbers.
    """

    name: str
    classes: tuple[str, ...] | None

    @property
    def column(self) -> Columns:
        """A column of numbers, as the only one."""
        return Columns((Column(self.name),))

    def faults(self, rows: TableRows) -> list[Fault]:
        """Return what cannot be read in rows that are not those it was learned from."""
        if absent := rows.absent([self.name]):
            return absent
        found = _gaps(rows, self.name)
        if self.classes is None:
            return found + no_numbers(rows, self.name)
        cells, rule = rows.cells[self.name], "be a class of the training rows"
        unknown = {cell for cell in {*cells} - {*self.classes} if not is_missing(cell)}
        others = (row for row, cell in enumerate(cells) if unknown and cell in unknown)
        return found + [rows.fault(row, self.name, rule) for row in others]

    def constant(self, rows: TableRows) -> list[Fault]:
        """Return that training rows hold one number alone, if they do."""
        numbers = {*rows.numbers(self.name).tolist()}
        rule = "hold at least two different numbers to predict in the training rows"
        fault = Fault(rows.path, rule, min(numbers), column=self.name)
        return [fault] if len(numbers) == 1 else []

    def standardized(
        self, rows: TableRows, units: Normalize | None, broken: Collection[str]
    ) -> tuple[Tensor, list[Fault]]:
        """Return the targets, and numbers too far from the training rows.

        Where it is broken, targets are of no meaning.
        """
        if self.name in broken or self.name not in rows.cells:
            return torch.zeros(len(rows)), []
        if units is not None:
            values, far = self.column.standardized(rows, units)
            return values[:, 0], far
        places = {name: number for number, name in enumerate(self.classes or ())}
        return torch.tensor([places[cell] for cell in rows.cells[self.name]]), []


def target_of(
    rows: TableRows, name: str, kind: Kind | None
) -> tuple[Target, list[Fault]]:
    """Return what training rows say of a column to predict, and its faults."""
    faults = _gaps(rows, name)
    known = {cell for cell in {*rows.cells[name]} if not is_missing(cell)}
    if (kind or _kind_of(known)) == "numbers":
        return Target(name, None), faults + no_numbers(rows, name)
    if kind is None:
        faults += no_points(rows, name)
    classes = sorted(known, key=_usual_order)
    # What is left out may be of another class.
    if len(classes) < 2 and not faults and not rows.faults:
        rule = "hold at least two classes"
        faults.append(Fault(rows.path, rule, classes, column=name))
    same = [pair for pair in itertools.pairwise(classes) if _are_one_number(*pair)]
    if same:
        rule = "write a class that is a number in one way"
        faults.append(Fault(rows.path, rule, " and ".join(same[0]), column=name))
    return Target(name, tuple(classes)), faults


def _gaps(rows: TableRows, name: str) -> list[Fault]:
    return [rows.fault(row, name, "hold a value") for row in rows.missing(name)]


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
