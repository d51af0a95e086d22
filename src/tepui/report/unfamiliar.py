"""What a page says about mistakes and unfamiliar samples, in tables."""

from markupsafe import Markup

from tepui.report.comparison import Comparison, Trained
from tepui.report.markup import TableCell, grouped_table
from tepui.report.measures import SHARE, Reading, interval_of, shown_name
from tepui.report.tables import interval_cell


def auroc(data: str | None, score: str) -> Reading:
    """Return what reads an AUROC in percent; without data, that of mistakes."""

    def read(trained: Trained) -> float | None:
        found = trained.evaluation
        by_score = found["mistakes"] if data is None else found["ood"][data]
        value = by_score[score]["auroc"]
        return None if value is None else 100 * value

    return read


def auroc_table(comparison: Comparison) -> Markup:
    """Return how well each score finds mistakes and unfamiliar samples."""
    scores = comparison.detecting_scores
    groups: dict[str, list[list[str | TableCell]]] = {}
    for data in (*([None] if comparison.has_mistakes else []), *comparison.ood_sets):
        groups["Mistakes on clean data" if data is None else data] = [
            [
                method.label,
                *(
                    interval_cell(found.within(*SHARE), 2)
                    for score in scores
                    for found in [interval_of(method, auroc(data, score))]
                ),
            ]
            for method in comparison.methods
        ]
    caption = "AUROC in %; guesses have 50 %"
    return grouped_table(caption, ["method", *map(shown_name, scores)], groups)
