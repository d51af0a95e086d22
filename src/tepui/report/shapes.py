"""Plots as values: shapes at horizontal percentages and vertical pixels.

A plot has no size of its own: it fills any width, and its text keeps its size. The
templates beside this file draw it as SVG.
"""

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal, NamedTuple

from tepui.report.wording import number

HUES, FORMS = 6, 6  # colors in the style sheet, and shapes of marks


class Look(NamedTuple):
    """How a method is drawn."""

    hue: int  # its color
    form: int  # its mark

    @property
    def kind(self) -> str:
        """The CSS class of its color."""
        return f"k{self.hue}"


def look(place: int) -> Look:
    """Return how a method is drawn; the first 36 differ in color or mark.

    Example:
        >>> look(1), look(7)
        (Look(hue=1, form=1), Look(hue=1, form=2))
    """
    turn, hue = divmod(place, HUES)
    return Look(hue, (hue + turn) % FORMS)


Size = Literal["big", "mid", "small"]
Anchor = Literal["start", "middle", "end"]


@dataclass(frozen=True)
class Line:
    """A straight line."""

    shape: ClassVar[str] = "line"
    x1: float
    y1: float
    x2: float
    y2: float
    kind: str  # CSS classes, as everywhere below


@dataclass(frozen=True)
class Mark:
    """A method's mark."""

    shape: ClassVar[str] = "mark"
    look: Look
    x: float
    y: float
    size: Size = "big"
    kind: str = ""


@dataclass(frozen=True)
class Words:
    """A text."""

    shape: ClassVar[str] = "words"
    x: float
    y: float
    text: str
    kind: str = "tick"
    anchor: Anchor = "middle"


Shape = Line | Mark | Words


@dataclass(frozen=True)
class Plot:
    """A picture; without words for it, it is decoration."""

    height: int
    shapes: Sequence[Shape]
    said: str = ""


@dataclass(frozen=True)
class Axis:
    """Values from low to high, at places from start to end."""

    low: float
    high: float
    start: float = 0.0
    end: float = 100.0

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        if self.high == self.low:
            return (self.start + self.end) / 2
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 2)

    def ticks(self, about: int = 5, *, sign: bool = False) -> dict[float, str]:
        """Return round numbers within the axis, and how they are written.

        Example:
            >>> list(Axis(-0.9, 1.1).ticks(4, sign=True).values())
            ['−0.5', '0', '+0.5', '+1.0']
        """
        raw = (self.high - self.low) / about
        if not (math.isfinite(raw) and raw > 0):
            return {}
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(s * power for s in (1, 2, 5, 10) if s * power >= raw * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        found = (n * step for n in range(first, last + 1))
        return {t: number(t, digits, sign=sign) if t else "0" for t in found}

    def plot(self, *, sign: bool = False) -> Plot:
        """Return the numbers below rows."""
        ticks = self.ticks(sign=sign).items()
        return Plot(20, [Words(self(t), 14, said) for t, said in ticks])


@dataclass(frozen=True)
class Row:
    """A method's name, its plot and its number side by side."""

    look: Look
    label: str
    plot: Plot
    value: str
    notes: Sequence[str] = ()
    bold: bool = False


class Panel(NamedTuple):
    """Rows that share an axis."""

    title: str
    rows: Sequence[Row]
    axis: Plot | None = None
    unit: str = ""


def trend(points: Sequence[tuple[float, float]], kind: str) -> list[Line]:
    """Return straight lines from point to point."""
    return [Line(*one, *other, kind) for one, other in pairwise(points)]


def grid_lines(axis: Axis, height: float) -> list[Line]:
    """Return vertical lines behind a row."""
    return [Line(axis(t), 0, axis(t), height, "grid") for t in axis.ticks()]


def whiskers(
    axis: Axis,
    low: float,
    high: float,
    y: float,
    kind: str,
    limits: Container[float] = (),
) -> list[Line]:
    """Return an interval; an end that a limit cuts has no bar across it."""
    if math.isnan(low):
        return []
    ends = [axis(end) for end in (low, high) if end not in limits]
    across = [Line(x, y - 4, x, y + 4, kind) for x in ends]
    return [Line(axis(low), y, axis(high), y, kind), *across]
