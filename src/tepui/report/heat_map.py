"""A score under every type and severity of corruption, as shaded tables."""

import math
from collections.abc import Mapping

from markupsafe import Markup

from tepui.data.shifts import NATURAL
from tepui.evaluation.results import SEEN, SEEN_IN_TRAINING
from tepui.report.comparison import Comparison, MethodResult, Trained
from tepui.report.contrasts import Reading, contrast
from tepui.report.markup import TableCell, figure, heat_table, part
from tepui.report.measures import Measure
from tepui.report.shapes import look
from tepui.report.wording import number
from tepui.studies import Difference, estimate

Place = tuple[str, int]


def levels(method: MethodResult, measure: Measure) -> dict[Place, float]:
    """Return the mean over ensembles for each type and severity."""
    found: dict[Place, list[float | None]] = {}
    for trained in method.ensembles:
        for place, value in _cells(trained, measure).items():
            found.setdefault(place, []).append(value)
    return {place: estimate(values).mean for place, values in found.items()}


def differences(
    method: MethodResult, base: MethodResult, measure: Measure
) -> dict[Place, tuple[float, Difference | None]]:
    """Return by how much a method differs from another, cell by cell.

    Beside the difference of means stands the paired one, where it is known.
    """
    own, other = levels(method, measure), levels(base, measure)
    step = measure.step("clean", method)  # of one copy
    return {
        place: (
            own[place] - other[place],
            contrast(method, base, _at(place, measure), step),
        )
        for place in own
        if place in other
    }


def heat_maps(comparison: Comparison, measure: Measure) -> Markup:
    """Return a table of the first method, and of the others' differences to it."""
    base, *others = comparison.methods
    level = levels(base, measure)
    mean = _means(level)
    order = sorted(mean, key=lambda k: mean[k], reverse=measure.better == "lower")
    digits = 0 if measure.percent else 2
    most = 100 if measure.percent else max(level.values(), default=1.0) or 1.0

    def whole(value: float) -> TableCell:
        weak = most - value if measure.percent else value
        return TableCell(
            number(value, digits), shade=max(0, 100 * weak / most), hue="level"
        )

    cells = {place: whole(value) for place, value in level.items()}
    shown = {k: number(value, digits) for k, value in mean.items()}
    small = f"{measure.name}, %" if measure.percent else measure.name
    tables = [_table(base, 0, small, order, cells, shown)]
    found = {method.label: differences(method, base, measure) for method in others}
    gaps = [abs(gap) for own in found.values() for gap, _ in own.values()]
    strongest = max(gaps, default=0.0) or 1.0
    for place, method in enumerate(others, 1):
        own = found[method.label]
        cells = {p: _gap(*cell, strongest, measure) for p, cell in own.items()}
        mean = _means({p: gap for p, (gap, _) in own.items()})
        shown = {k: number(v, measure.coarse, sign=True) for k, v in mean.items()}
        small = f"less {base.label}, {measure.unit}".removesuffix(", ")
        tables.append(_table(method, place, small, order, cells, shown))
    caption = "Hardest corruptions first."
    if others:
        caption += (
            f" After {base.label}, differences to it: better (violet) or worse (rose), "
            "bold if the paired interval leaves out zero."
        )
    return figure("Every corruption", caption, part("maps", tables))


def _means(cells: Mapping[Place, float]) -> dict[str, float]:
    """Return the mean of every type over severities."""
    kinds = dict.fromkeys(kind for kind, _ in cells)
    return {
        k: estimate(v for (kind, _), v in cells.items() if kind == k).mean
        for k in kinds
    }


def _gap(
    gap: float, found: Difference | None, strongest: float, measure: Measure
) -> TableCell:
    better = gap > 0 if measure.better != "lower" else gap < 0
    digits = 1 if measure.percent else 2
    return TableCell(
        number(gap, digits, sign=True),
        found is not None and found.apart,
        shade=100 * math.sqrt(abs(gap) / strongest),
        hue="up" if better else "down",
    )


def _table(
    method: MethodResult,
    place: int,
    small: str,
    order: list[str],
    cells: Mapping[Place, TableCell],
    means: Mapping[str, str],
) -> Markup:
    seen = {
        cell["type"]
        for trained in method.ensembles
        for cell in trained.evaluation["cells"]
        if cell.get(SEEN)
    }
    severities = sorted({severity for _, severity in cells})
    rows: list[list[str | TableCell]] = [
        [
            kind.replace("_", " ") + (f" ({SEEN_IN_TRAINING})" if kind in seen else ""),
            *(cells.get((kind, severity), TableCell("")) for severity in severities),
            TableCell(means.get(kind, ""), hue="mean"),
        ]
        for kind in order
    ]
    headings = ["severity", *map(str, severities), "mean"]
    return heat_table(method.label, small, headings, rows, look(place))


def _at(place: Place, measure: Measure) -> Reading:
    return lambda trained: _cells(trained, measure).get(place)


def _cells(trained: Trained, measure: Measure) -> dict[Place, float | None]:
    """Return a measure of every corrupted copy; natural shifts have no severity."""
    return {
        (cell["type"], cell["severity"]): None
        if cell.get(measure.score) is None
        else measure.scale * cell[measure.score]
        for cell in trained.evaluation["cells"]
        if cell["severity"] != NATURAL
    }
