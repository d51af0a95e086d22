"""A score under every type and severity of corruption, as shaded tables."""

import math
from collections.abc import Mapping

from markupsafe import Markup

from tepui.data.shifts import NATURAL
from tepui.evaluation.results import SEEN, SEEN_IN_TRAINING
from tepui.report.chance import count_apart
from tepui.report.comparison import Comparison, MethodResult, Trained
from tepui.report.contrasts import Reading, contrast
from tepui.report.markup import TableCell, figure, heat_table, part
from tepui.report.measures import Measure
from tepui.report.shapes import look
from tepui.report.wording import listed, number
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


def heat_maps(comparison: Comparison, measure: Measure) -> tuple[str, Markup]:
    """Return what stands out in a sentence, and a table per method."""
    base, *others = comparison.methods
    level = levels(base, measure)
    kinds = list(dict.fromkeys(kind for kind, _ in level))
    severities = sorted({severity for _, severity in level})
    mean = {
        k: estimate(v for (own, _), v in level.items() if own == k).mean for k in kinds
    }
    order = sorted(kinds, key=lambda k: mean[k], reverse=measure.better == "lower")
    found = {method.label: differences(method, base, measure) for method in others}
    tables = [_levels(base, level, order, severities, measure)]
    strongest = max(
        (abs(gap) for cells in found.values() for gap, _ in cells.values()), default=0.0
    )
    for place, (label, cells) in enumerate(found.items(), 1):
        shown = {p: _gap(*cell, strongest, measure) for p, cell in cells.items()}
        means = {
            k: [gap for (own, _), (gap, _) in cells.items() if own == k] for k in order
        }
        means_shown = {k: _mean(v, measure) for k, v in means.items()}
        rows = _rows(others[place - 1], order, severities, shown, means_shown)
        unit = f", {measure.unit}" if measure.unit else ""
        small = f"less {base.label}{unit}"
        tables.append(
            heat_table(label, small, _headings(severities), rows, look(place))
        )
    return _lead(base, mean, order, found, measure), figure(
        "Every corruption", _caption(base, measure, bool(others)), part("maps", tables)
    )


def _levels(
    base: MethodResult,
    level: Mapping[Place, float],
    order: list[str],
    severities: list[int],
    measure: Measure,
) -> Markup:
    worst = max(level.values(), default=1.0) or 1.0
    digits = 0 if measure.percent else 2

    def shown(value: float) -> TableCell:
        weak = 100 - value if measure.percent else 100 * value / worst
        return TableCell(number(value, digits), shade=max(0.0, weak), hue="level")

    cells = {place: shown(value) for place, value in level.items()}
    means = {k: [v for (own, _), v in level.items() if own == k] for k in order}
    rows = _rows(
        base,
        order,
        severities,
        cells,
        {k: number(estimate(v).mean, digits) for k, v in means.items()},
    )
    small = f"{measure.name}, %" if measure.percent else measure.name
    return heat_table(base.label, small, _headings(severities), rows, look(0))


def _gap(
    gap: float, found: Difference | None, strongest: float, measure: Measure
) -> TableCell:
    better = gap > 0 if measure.better != "lower" else gap < 0
    shade = 100 * math.sqrt(abs(gap) / strongest) if strongest else 0.0
    text = number(gap, 1 if measure.percent else 2, sign=True)
    apart = found is not None and found.apart
    return TableCell(text, apart, shade=shade, hue="up" if better else "down")


def _rows(
    method: MethodResult,
    order: list[str],
    severities: list[int],
    cells: Mapping[Place, TableCell],
    means: Mapping[str, str],
) -> list[list[str | TableCell]]:
    seen = {
        cell["type"]
        for trained in method.ensembles
        for cell in trained.evaluation["cells"]
        if cell.get(SEEN)
    }
    return [
        [
            kind.replace("_", " ") + (f" ({SEEN_IN_TRAINING})" if kind in seen else ""),
            *(cells.get((kind, severity), TableCell("")) for severity in severities),
            TableCell(means.get(kind, ""), hue="mean"),
        ]
        for kind in order
    ]


def _mean(values: list[float], measure: Measure) -> str:
    return number(estimate(values).mean, 1 if measure.percent else 2, sign=True)


def _headings(severities: list[int]) -> list[str]:
    return ["severity", *map(str, severities), "mean"]


def _lead(
    base: MethodResult,
    mean: Mapping[str, float],
    order: list[str],
    found: Mapping[str, Mapping[Place, tuple[float, Difference | None]]],
    measure: Measure,
) -> str:
    digits, unit = (0, " %") if measure.percent else (2, "")
    hardest = listed(
        f"{kind.replace('_', ' ')} ({number(mean[kind], digits)}{unit})"
        for kind in order[:3]
    )
    known = [d for cells in found.values() for _, d in cells.values() if d is not None]
    counted = f" {count_apart(known)}" if known else ""
    return f"Hardest for {base.label}: {hardest}.{counted}"


def _caption(base: MethodResult, measure: Measure, compared: bool) -> str:
    side = "lower" if measure.better != "lower" else "higher"
    text = f"First {measure.name} of {base.label}, stronger is {side}"
    if compared:
        text += "; then by how much the others are better (violet) or worse (rose)"
    text += ". Hardest corruptions first, in the same order everywhere"
    bold = "; bold where the paired interval leaves out zero" if compared else ""
    return f"{text}{bold}."


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
