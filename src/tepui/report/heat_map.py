"""A score under every type and severity of corruption, as shaded tables."""

import math
from collections.abc import Mapping

from markupsafe import Markup

from tepui.data.shifts import NATURAL
from tepui.evaluation.results import SEEN, SEEN_IN_TRAINING
from tepui.report.comparison import Comparison, MethodResult, Trained
from tepui.report.markup import TableCell, cells_of, figure, part
from tepui.report.measures import Measure
from tepui.report.shapes import look
from tepui.report.wording import number
from tepui.studies import estimate

Place = tuple[str, int]


def levels(method: MethodResult, measure: Measure) -> dict[Place, float]:
    """Return the mean over ensembles for each type and severity."""
    found: dict[Place, list[float | None]] = {}
    for trained in method.ensembles:
        for place, value in _cells(trained, measure).items():
            found.setdefault(place, []).append(value)
    return {place: estimate(values).mean for place, values in found.items()}


def heat_maps(comparison: Comparison, measure: Measure) -> Markup:
    """Return a table per method, the darker the worse."""
    every = [levels(method, measure) for method in comparison.methods]
    mean = _means(every[0])
    order = sorted(mean, key=lambda k: mean[k], reverse=measure.better == "lower")
    most = 100 if measure.percent else max(v for own in every for v in own.values())
    small = f"{measure.name}, %" if measure.percent else measure.name
    tables = [
        _table(method, place, small, order, own, measure, most or 1.0)
        for place, (method, own) in enumerate(
            zip(comparison.methods, every, strict=True)
        )
    ]
    caption = f"By severity; hardest for {comparison.methods[0].label} first."
    return figure("Every corruption", caption, part("maps", tables))


def _means(cells: Mapping[Place, float]) -> dict[str, float]:
    """Return the mean of every type over severities."""
    kinds = dict.fromkeys(kind for kind, _ in cells)
    return {
        k: estimate(v for (kind, _), v in cells.items() if kind == k).mean
        for k in kinds
    }


def _table(
    method: MethodResult,
    place: int,
    small: str,
    order: list[str],
    cells: Mapping[Place, float],
    measure: Measure,
    most: float,
) -> Markup:
    seen = {
        cell["type"]
        for trained in method.ensembles
        for cell in trained.evaluation["cells"]
        if cell.get(SEEN)
    }
    digits, means = 0 if measure.percent else 2, _means(cells)
    severities = sorted({severity for _, severity in cells})

    def cell(at: Place) -> TableCell:
        value = cells.get(at, math.nan)
        weak = most - value if measure.percent else value
        shade = max(0, 100 * weak / most) if math.isfinite(value) else None
        return TableCell(number(value, digits), shade=shade, hue="level")

    rows: list[list[str | TableCell]] = [
        [
            kind.replace("_", " ") + (f" ({SEEN_IN_TRAINING})" if kind in seen else ""),
            *(cell((kind, severity)) for severity in severities),
            TableCell(number(means.get(kind, math.nan), digits), hue="mean"),
        ]
        for kind in order
    ]
    column = (
        [v for (_, hard), v in cells.items() if hard == level] for level in severities
    )
    whole = [*(estimate(each).mean for each in column), estimate(cells.values()).mean]
    rows.append(["mean", *(TableCell(number(v, digits), hue="mean") for v in whole)])
    headings = ["severity", *map(str, severities), "mean"]
    shaded = [*map(cells_of, rows)]
    return part("heat", method.label, small, headings, shaded, look(place))


def _cells(trained: Trained, measure: Measure) -> dict[Place, float | None]:
    """Return a measure of every corrupted copy; natural shifts have no severity."""
    return {
        (cell["type"], cell["severity"]): None
        if cell.get(measure.score) is None
        else measure.scale * cell[measure.score]
        for cell in trained.evaluation["cells"]
        if cell["severity"] != NATURAL
    }
