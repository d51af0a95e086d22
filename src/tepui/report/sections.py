"""What a page says about a group of methods, one function per section.

Every function returns pieces of HTML, first the sentence that its numbers say, and
nothing where the data for its section are missing.
"""

from collections.abc import Callable, Sequence

from markupsafe import Markup

from tepui.report.applied import applied_parts
from tepui.report.by_class import class_parts
from tepui.report.contrasts import (
    difference_figure,
    method_sentence,
    other_differences,
)
from tepui.report.cost import cost, price_table
from tepui.report.heat_map import heat_maps
from tepui.report.loading import Group
from tepui.report.markup import definitions, folded, lead, note, part
from tepui.report.measures import leading_measure, measures_of
from tepui.report.members import members_parts, sets_parts
from tepui.report.reliability import has_reliability, reliability_figure
from tepui.report.scores import failures, gain_sentence, scores_figure
from tepui.report.tables import score_table
from tepui.report.trust import trust_parts, trust_sentence
from tepui.report.unfamiliar import auroc_table

Parts = Sequence[Markup]

ABOUT = "Intervals: Student's t over ensembles. Corrupted: all types and severities."
QUESTIONS = (
    "Is the ensemble better than one network?",
    "When can it be trusted?",
    "Which method is better?",
)


def claim(group: Group) -> str:
    """Return the page's answers, after what is wrong with the ensembles."""
    comparison = group.comparison
    said = [*failures(comparison), gain_sentence(comparison)]
    said += [trust_sentence(comparison), method_sentence(group)]
    return " ".join(filter(None, said))


def better(group: Group) -> Parts:
    """Return what averaging gains, and which ensembles or members came to nothing."""
    comparison = group.comparison
    parts = [lead(said) for said in failures(comparison)]
    parts += [part("told", gain_sentence(comparison))]
    return [*parts, scores_figure(comparison)]


def trusted(group: Group) -> Parts:
    """Return when answers are right."""
    comparison = group.comparison
    said = [part("told", each) for each in [trust_sentence(comparison)] if each]
    return [*said, *trust_parts(comparison)]


def methods(group: Group) -> Parts:
    """Return how methods differ in the leading score, and what each of them cost."""
    comparison = group.comparison
    if len(comparison.methods) == 1:
        return []
    told = part("told", method_sentence(group))
    return [told, *difference_figure(comparison), *price_table(group)]


def differences(group: Group) -> Parts:
    """Return paired differences in all but the leading score."""
    return other_differences(group.comparison) if len(group.entries) > 1 else []


def all_scores(group: Group) -> Parts:
    """Return all scores in a table, and what the terms mean."""
    comparison = group.comparison
    terms = {
        m.heading: m.meaning + (f"; {m.better} is better" if m.better else "")
        for m in measures_of(comparison)
    }
    return [
        score_table(comparison),
        note(ABOUT),
        folded("What the terms mean", definitions(terms)),
    ]


def corruptions(group: Group) -> Parts:
    """Return the leading score under every corruption."""
    comparison = group.comparison
    measure = leading_measure(comparison)
    if not comparison.has_shift or measure.score not in comparison.score_names:
        return []
    return [heat_maps(comparison, measure)]


def calibration(group: Group) -> Parts:
    """Return how far ensembles can be taken at their word."""
    comparison = group.comparison
    drawn = [reliability_figure(comparison)] if has_reliability(comparison) else []
    return [*drawn, *applied_parts(group)]


def unfamiliar(group: Group) -> Parts:
    """Return how well every score finds mistakes and unfamiliar samples."""
    comparison = group.comparison
    known = comparison.ood_sets or comparison.has_mistakes
    return [auroc_table(comparison)] if known else []


SECTIONS: dict[str, Callable[[Group], Parts]] = {
    **dict(zip(QUESTIONS, (better, trusted, methods), strict=True)),
    "Differences": differences,
    "All scores": all_scores,
    "By class": class_parts,
    "Calibration": calibration,
    "Mistakes and unfamiliar samples": unfamiliar,
    "Corruptions": corruptions,
    "Members": members_parts,
    "Sharpness-aware sets": sets_parts,
    "Cost": cost,
}
