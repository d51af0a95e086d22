"""What a page says about a group of methods, one function per section.

Every function returns pieces of HTML, first the sentence that its numbers say, and
nothing where the data for its section are missing.
"""

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup

from tepui.core.provenance import short_path
from tepui.report.applied import applied_parts
from tepui.report.by_class import by_class_parts, by_label_parts
from tepui.report.comparison import Comparison
from tepui.report.contrast_rows import (
    claim,
    contrast_table,
    contrasts_of,
    summary_figure,
)
from tepui.report.contrasts import count_apart
from tepui.report.cost import cost
from tepui.report.heat_map import heat_maps
from tepui.report.levels import curves_of, level_figure, levels_of
from tepui.report.loading import Entry, Group
from tepui.report.markup import definitions, folded, lead, note, part, table
from tepui.report.measures import COVERAGE, kinds, leading_measure, measures_of
from tepui.report.members import gallery_figure, members_parts, sets_parts
from tepui.report.reliability import has_reliability, reliability_figure
from tepui.report.run_ends import epochs_of, kept_of
from tepui.report.scores import scores_figure
from tepui.report.shapes import look
from tepui.report.tables import score_table
from tepui.report.taken_measures import taken_parts
from tepui.report.unfamiliar import auroc_table, kept_table
from tepui.report.wording import DASH, opening, role

Parts = Sequence[Markup]

BY_CLASS = "By class"
BY_LABEL = "By label"
DIFFERENCES = "Differences"
MEASURES = "Measures"
BOLD = (
    "Bold marks the best method, if its paired interval leaves out zero against every "
    "other one. Sharpness is measured on training data. One ensemble has no interval."
)
TERMS = {
    "paired difference": "method less baseline, the first one, over shared seeds",
    "95 % interval": "Student's t over ensembles, within what the score can be",
    "corrupted data": "every type and severity of corruption, averaged",
}
# What a page says first; all else is folded.
OPEN = {
    *("Summary", "Scores", "Calibration", "Mistakes and unfamiliar samples"),
    *("Gallery", DIFFERENCES, "All scores"),
}


def summary(group: Group) -> Parts:
    """Return what differs and what does not, and the picture that shows it."""
    comparison = group.comparison
    names = [
        (method.label, look(place), role(place, len(comparison.methods)))
        for place, method in enumerate(comparison.methods)
    ]
    main = leading_measure(comparison)
    leading = contrasts_of(comparison, [main], kinds(comparison))
    parts = [part("keys", names), part("told", claim(group))]
    return [*parts, summary_figure(comparison, leading)] if leading else parts


def scores(group: Group) -> Parts:
    """Return members and ensembles in dots."""
    return [scores_figure(group.comparison)]


def differences(group: Group) -> Parts:
    """Return paired differences; nothing where no two methods share seeds."""
    comparison = group.comparison
    found = contrasts_of(comparison, measures_of(comparison), kinds(comparison))
    if not found:
        return []
    said = count_apart([each.found for each in found])
    return [lead(said), contrast_table(comparison, found)]


def all_scores(group: Group) -> Parts:
    """Return all scores in a table, what the terms mean, and where runs come from."""
    comparison = group.comparison
    terms = {
        m.heading: m.meaning + (f"; {m.better} is better" if m.better else "")
        for m in measures_of(comparison)
    }
    return [
        score_table(comparison),
        note(BOLD),
        folded("What the terms mean", definitions(terms | TERMS)),
        folded("Where these runs come from", _origins(group.entries)),
    ]


def corruptions(group: Group) -> Parts:
    """Return the leading score by severity, and tables of all corruptions."""
    comparison = group.comparison
    measure = leading_measure(comparison)
    if not comparison.has_shift or measure.score not in comparison.score_names:
        return []
    title = f"{opening(measure.name)} by severity"
    levels, curves = levels_of(comparison), curves_of(comparison, measure)
    drawn = level_figure(title, levels, curves, percent=measure.percent)
    return [drawn, heat_maps(comparison, measure)]


def calibration(group: Group) -> Parts:
    """Return how far ensembles can be taken at their word."""
    comparison = group.comparison
    parts: list[Markup] = []
    if has_reliability(comparison):
        parts += [reliability_figure(comparison)]
    return [*parts, *_intervals(comparison), *applied_parts(group)]


def _intervals(comparison: Comparison) -> Parts:
    """Return how often intervals of predicted numbers hold, where there are any."""
    clean = comparison.methods[0].ensembles[0].evaluation["clean"]
    promised = 100 * (clean.get("nominal_coverage") or math.nan)
    if math.isnan(promised) or COVERAGE.score not in comparison.score_names:
        return []
    curves = curves_of(comparison, COVERAGE)
    if all(math.isnan(mean) for own in curves for mean in own.means):
        return []
    title, levels = "Coverage of predicted intervals", levels_of(comparison)
    return [level_figure(title, levels, curves, percent=True, promised=promised)]


def unfamiliar(group: Group) -> Parts:
    """Return how well mistakes and unfamiliar samples are detected."""
    comparison = group.comparison
    kept = kept_table(comparison)
    parts = [] if kept is None else [kept]
    if not comparison.ood_sets and not comparison.has_mistakes:
        return parts
    return [*parts, auroc_table(comparison)]


def gallery(group: Group) -> Parts:
    """Return the samples on which members agree and differ most."""
    found = gallery_figure(group.comparison)
    return [] if found is None else [found]


SECTIONS: dict[str, Callable[[Group], Parts]] = {
    "Summary": summary,
    "Scores": scores,
    "Calibration": calibration,
    "Mistakes and unfamiliar samples": unfamiliar,
    "Gallery": gallery,
    DIFFERENCES: differences,
    "All scores": all_scores,
    BY_CLASS: by_class_parts,
    BY_LABEL: by_label_parts,
    "Corruptions": corruptions,
    MEASURES: taken_parts,
    "Members": members_parts,
    "Sharpness-aware sets": sets_parts,
    "Cost": cost,
}


def _origins(entries: Sequence[Entry]) -> Markup:
    kept = any(end.kept for entry in entries for end in entry.outcomes)
    titles = ["method", "from", "data", "model", "members"]
    titles += ["ensembles", "samples", "epochs"]
    titles += ["weights kept after"] if kept else []
    lines = [
        [
            entry.result.label,
            ", ".join(map(short_path, entry.sources)),
            _known(entry.training.get("data") or entry.training.get("data_class")),
            *(_known(entry.training.get(name)) for name in ("model", "members")),
            str(len(entry.result.ensembles)),
            _known(entry.training.get("samples")),
            epochs_of([entry]) or DASH,
            *([kept_of(entry)] if kept else []),
        ]
        for entry in entries
    ]
    return table("Runs", titles, lines, words=4)


def _known(value: object) -> str:
    return DASH if value is None else str(value)
