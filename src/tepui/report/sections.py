"""What a page says about a group of methods, one function per section.

Every function returns pieces of HTML, first the sentence that its numbers say, and
nothing where the data for its section are missing.
"""

from collections.abc import Callable, Sequence

from markupsafe import Markup

from tepui.report.applied import applied_parts
from tepui.report.by_class import class_parts
from tepui.report.comparison import Comparison
from tepui.report.contrasts import (
    difference_figure,
    method_sentence,
    other_differences,
)
from tepui.report.cost import cost, price_table
from tepui.report.heat_map import heat_maps
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


def claim(comparison: Comparison) -> str:
    """Return the page's answers, after what is wrong with the ensembles."""
    said = [*failures(comparison), gain_sentence(comparison)]
    said += [trust_sentence(comparison), method_sentence(comparison)]
    return " ".join(filter(None, said))


def better(comparison: Comparison) -> Parts:
    """Return what averaging gains, and which ensembles or members came to nothing."""
    parts = [lead(said) for said in failures(comparison)]
    parts += [part("told", gain_sentence(comparison))]
    return [*parts, scores_figure(comparison)]


def trusted(comparison: Comparison) -> Parts:
    """Return when answers are right."""
    said = [part("told", each) for each in [trust_sentence(comparison)] if each]
    return [*said, *trust_parts(comparison)]


def methods(comparison: Comparison) -> Parts:
    """Return how methods differ in the leading score, and what each of them cost."""
    if len(comparison.methods) == 1:
        return []
    told = part("told", method_sentence(comparison))
    return [told, *difference_figure(comparison), *price_table(comparison)]


def differences(comparison: Comparison) -> Parts:
    """Return paired differences in all but the leading score."""
    return other_differences(comparison) if len(comparison.methods) > 1 else []


def all_scores(comparison: Comparison) -> Parts:
    """Return all scores in a table, and what the terms mean."""
    terms = {
        m.heading: m.meaning + (f"; {m.better} is better" if m.better else "")
        for m in measures_of(comparison)
    }
    return [
        score_table(comparison),
        note(ABOUT),
        folded("What the terms mean", definitions(terms)),
    ]


def corruptions(comparison: Comparison) -> Parts:
    """Return the leading score under every corruption."""
    measure = leading_measure(comparison)
    if not comparison.has_shift or measure.score not in comparison.score_names:
        return []
    return [heat_maps(comparison, measure)]


def calibration(comparison: Comparison) -> Parts:
    """Return how far ensembles can be taken at their word."""
    drawn = [reliability_figure(comparison)] if has_reliability(comparison) else []
    return [*drawn, *applied_parts(comparison)]


def unfamiliar(comparison: Comparison) -> Parts:
    """Return how well every score finds mistakes and unfamiliar samples."""
    known = comparison.ood_sets or comparison.has_mistakes
    return [auroc_table(comparison)] if known else []


SECTIONS: dict[str, Callable[[Comparison], Parts]] = {
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
