"""Accuracy under every type and severity of corruption, as a colored table."""

from tepui.data.shifts import NATURAL
from tepui.report.markup import TableCell, table
from tepui.studies import Comparison, MethodResult, estimate

BLUE, ORANGE = "0 114 178", "213 94 0"
STRONGEST = 0.6  # text on it stays readable, on light and on dark pages

Cells = dict[tuple[str, int], float]


def heat_map(comparison: Comparison) -> str:
    """Return accuracy of the first method, and how others differ from it.

    A row per type and a column per method and severity, in percent for the first method
    and in points for the others.
    """
    first, *others = comparison.methods
    base = accuracies(first)
    types = list(dict.fromkeys(kind for kind, _ in base))
    severities = sorted({severity for _, severity in base})
    gaps = {method.label: differences(method, first) for method in others}
    reach = max(
        (abs(gap) for row_gaps in gaps.values() for gap in row_gaps.values()), default=0
    )
    labels = [method.label for method in comparison.methods]
    headings = ["corruption", *map(str, severities * len(labels))]
    above = [(label, len(severities)) for label in labels]
    rows = []
    for kind in types:
        row: list[str | TableCell] = [kind.replace("_", " ")]
        for severity in severities:
            edge = severity == severities[0]
            row.append(_level(base.get((kind, severity)), edge))
        for row_gaps in gaps.values():
            for severity in severities:
                edge = severity == severities[0]
                row.append(_gap(row_gaps.get((kind, severity)), reach, edge))
        rows.append(row)
    caption = f"Ensemble accuracy of {first.label} in %, by type and severity"
    if others:
        caption += "; for the other methods, the difference to it in points"
    return table(caption, headings, rows, above=above, kind="heat")


def accuracies(method: MethodResult) -> Cells:
    """Return the mean accuracy over ensembles for each type and severity."""
    accuracy: dict[tuple[str, int], list[float | None]] = {}
    for trained in method.ensembles:
        for cell in trained.evaluation["cells"]:
            place = (cell["type"], cell["severity"])
            if cell["severity"] != NATURAL:
                accuracy.setdefault(place, []).append(cell["accuracy"])
    return {place: estimate(values).mean for place, values in accuracy.items()}


def differences(method: MethodResult, first: MethodResult) -> Cells:
    """Return by how much a method is more accurate than another, cell by cell."""
    base = accuracies(first)
    compared = accuracies(method)
    return {place: compared[place] - base[place] for place in compared if place in base}


def _level(value: float | None, edge: bool) -> TableCell:
    if value is None:
        return TableCell("", edge=edge)
    return TableCell(f"{100 * value:.0f}", color=_shade(BLUE, value), edge=edge)


def _gap(value: float | None, reach: float, edge: bool) -> TableCell:
    if value is None:
        return TableCell("", edge=edge)
    text = f"{100 * value:+.1f}".replace("-", "−")  # noqa: RUF001 - a minus sign
    strength = abs(value) / reach if reach else 0.0
    return TableCell(
        text, color=_shade(BLUE if value > 0 else ORANGE, strength), edge=edge
    )


def _shade(color: str, strength: float) -> str:
    return f"rgb({color} / {STRONGEST * strength:.3f})"
