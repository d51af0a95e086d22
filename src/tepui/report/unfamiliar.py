"""What a page says about mistakes and unfamiliar samples, in tables."""

from markupsafe import Markup

from tepui.evaluation.ood import SUREST
from tepui.report.comparison import Comparison, MethodResult, Trained
from tepui.report.contrasts import Reading, interval_of, leads
from tepui.report.markup import TableCell, grouped_table, table
from tepui.report.measures import SHARE, shown_name
from tepui.report.tables import interval_cell, mean_cell
from tepui.report.wording import number

KEPT = (90, 80)  # percent of the samples, the surest ones


def auroc(data: str | None, score: str) -> Reading:
    """Return what reads an AUROC in percent; without data, that of mistakes."""

    def read(trained: Trained) -> float | None:
        found = trained.evaluation
        by_score = found["mistakes"] if data is None else found["ood"][data]
        value = by_score[score]["auroc"]
        return None if value is None else 100 * value

    return read


def auroc_groups(comparison: Comparison) -> dict[str, list[list[str | TableCell]]]:
    """Return the rows of the table of AUROC by data, one column per score."""
    sets = (*([None] if comparison.has_mistakes else []), *comparison.ood_sets)
    return {
        "Mistakes on clean data" if data is None else data: [
            [
                method.label,
                *(
                    _cell(comparison, method, auroc(data, score))
                    for score in comparison.detecting_scores
                ),
            ]
            for method in comparison.methods
        ]
        for data in sets
    }


def _cell(comparison: Comparison, method: MethodResult, read: Reading) -> TableCell:
    others = [other for other in comparison.methods if other is not method]
    found = interval_of(method, read).within(*SHARE)
    return interval_cell(found, 2, bold=leads(method, others, read))


def auroc_table(comparison: Comparison) -> Markup:
    """Return how well each score finds mistakes and unfamiliar samples."""
    titles = [shown_name(score) for score in comparison.detecting_scores]
    caption = "AUROC in %; guesses have 50 %"
    return grouped_table(caption, ["method", *titles], auroc_groups(comparison))


def unfamiliar_sentence(comparison: Comparison) -> str:
    """Return how well each method finds unfamiliar samples, in a sentence.

    That is by the first score that all have; empty where nothing unfamiliar was tested.
    """
    if not (comparison.ood_sets and comparison.detecting_scores):
        return ""
    score = comparison.detecting_scores[0]
    said = []
    for data in comparison.ood_sets:
        read = auroc(data, score)
        means = {m.label: interval_of(m, read).mean for m in comparison.methods}
        values = [f"{label} {number(mean, 1)}" for label, mean in means.items()]
        said.append(f"{data}: {', '.join(values)}")
    return (
        f"unfamiliar samples, AUROC in % by {shown_name(score)}: {'; '.join(said)} "
        "(other scores: in the report)"
    )


def kept_table(comparison: Comparison) -> Markup | None:
    """Return the error among the surest clean samples; None if unknown."""
    rows: list[list[str | TableCell]] = []
    for method in comparison.methods:
        found = [own.evaluation.get("selective") or {} for own in method.ensembles]
        if all(SUREST in each for each in found):
            columns = ([f[SUREST][f"error_at_{kept}"] for f in found] for kept in KEPT)
            rows.append([method.label, *(mean_cell(c, 100, 2) for c in columns)])
    headings = ["method", *(f"of the surest {kept} %" for kept in KEPT)]
    return (
        table("Error in % among the surest samples", headings, rows) if rows else None
    )
