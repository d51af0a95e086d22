"""What a page says about a group of methods, one function per section.

Every function returns pieces of HTML and drawings, and nothing where the data for its
section are missing.
"""

from collections.abc import Callable, Iterable, Sequence

from tepui.core.provenance import short_path
from tepui.report import figures
from tepui.report.applied import applied_parts
from tepui.report.cost import cost_table, prediction_table
from tepui.report.heat_map import heat_map
from tepui.report.markup import Drawing, TableCell, definitions, paragraph, table
from tepui.report.members import members
from tepui.report.ood import auroc_rows, galleries, ood_histograms
from tepui.report.tables import (
    DATA,
    Row,
    columns,
    headings,
    kinds,
    rows,
    shown_name,
)
from tepui.report.timeline import timeline_parts
from tepui.studies import Comparison
from tepui.studies.load_reports import Entry, Group

Parts = Sequence[str | Drawing]

GLOSSARY = {
    "individual": "mean accuracy of the members on their own",
    "ensemble": "accuracy of their averaged probabilities",
    "gain": "ensemble less individual accuracy, in points",
    "DER": "disagreement of two members over their error; higher is more diverse",
    "ECE": "expected calibration error, 15 bins; lower is better",
    "NLL": "negative log likelihood of the truth; lower is better",
    "mIoU": "intersection over union of true and predicted pixels, mean over classes",
    "mAP": "average precision of a label, mean over labels",
    "members' RMSE": "root of the mean squared error, mean over members",
    "RMSE": "root of the mean squared error of the ensemble; lower is better",
    "CRPS": "continuous ranked probability score, the error of a whole predicted "
    "distribution; lower is better",
    "coverage": "share of targets within their interval; best where it is what was "
    "promised (90 %, or what the quantiles span)",
    "width": "mean width of these intervals",
    "quantile error": "mean distance between the levels of quantiles and the share of "
    "targets below them",
    "spread": "mean standard deviation over members",
    "sharpness": "largest rise of the training loss within an adaptive ball around a "
    "member's weights, mean over members; lower is flatter",
}


def overview(group: Group) -> Parts:
    """Return the table of all methods, where they come from, and accuracy in bars."""
    comparison = group.comparison
    titles = ["data", "method", *headings(comparison)]
    words = {
        column.title: GLOSSARY.get(column.title, "a metric of your own")
        for column in columns(comparison)
    }
    parts: list[str | Drawing] = [
        paragraph(_introduction(group)),
        scores("Means ± standard errors over ensembles", titles, rows(comparison)),
        paragraph("Bold marks the best mean of a column.", "note"),
        definitions(words),
        _origins(group.entries),
    ]
    if not {"individual_accuracy", "accuracy"} <= comparison.score_names:
        return parts
    return [
        *parts,
        Drawing(
            "accuracy",
            f"Bars of accuracy. {_all_scores(comparison, 'accuracy', 'Ensembles')}",
            "Accuracy of the members (light) and what averaging them adds (dark); "
            "bars show the standard error over ensembles. The axes do not start at "
            "zero.",
            figures.accuracy_bars(comparison),
        ),
    ]


def sharpness_map(group: Group) -> Parts:
    """Return the members' sharpness against their diversity."""
    comparison = group.comparison
    if not comparison.has_sharpness or "der" not in comparison.score_names:
        return []
    places = "; ".join(
        f"{method.label} at sharpness {method.sharpness.mean:.3g}, "
        f"DER {method.score('clean', 'der').mean:.3g}"
        for method in comparison.methods
        if method.sharpness.count
    )
    return [
        Drawing(
            "sharpness",
            f"Points of sharpness and diversity, on clean data: {places}.",
            "Sharpness of the members against their diversity on test data; one point "
            "per ensemble. The trade-off: flatter members (left) tend to disagree less "
            "per error (low).",
            figures.sharpness_and_diversity(comparison),
        )
    ]


def corruptions(group: Group) -> Parts:
    """Return accuracy by severity and the map of all corruptions."""
    comparison = group.comparison
    if not comparison.has_shift or "accuracy" not in comparison.score_names:
        return []
    first = comparison.methods[0].ensembles[0].evaluation
    hardest = list(first["severities"])[-1]
    falls = "; ".join(
        f"{method.label} from {100 * method.score('clean', 'accuracy').mean:.1f} % to "
        f"{100 * method.severity(hardest, 'accuracy').mean:.1f} %"
        for method in comparison.methods
    )
    return [
        Drawing(
            "severity",
            f"Accuracy from clean data to severity {hardest}: {falls}.",
            "Accuracy of the ensembles as the corruption of the test images grows, "
            "averaged over all types of corruption.",
            figures.accuracy_by_severity(comparison),
        ),
        heat_map(comparison),
        paragraph("Blue is better, orange worse; paler is less.", "note"),
    ]


def reliability(group: Group) -> Parts:
    """Return how often the ensembles are right at each confidence."""
    comparison = group.comparison
    if "ece" not in comparison.score_names:
        return [*applied_parts(group)]
    errors = _all_scores(comparison, "ece", "Calibration error")
    return [
        Drawing(
            "reliability",
            f"Accuracy against confidence, with the diagonal. {errors}",
            "How often the ensembles are right at each confidence. Points below the "
            "diagonal are over-confident; larger markers hold more samples, and bins "
            "with fewer than ten are left out.",
            figures.reliability_diagram(comparison),
        ),
        *applied_parts(group),
    ]


def unfamiliar(group: Group) -> Parts:
    """Return how well mistakes and unfamiliar samples are detected."""
    comparison = group.comparison
    if not comparison.ood_sets and not comparison.has_mistakes:
        return []
    titles = [shown_name(score) for score in comparison.detecting_scores]
    parts: list[str | Drawing] = [
        paragraph(
            "How well each score tells mistakes from right answers, and samples of "
            "unfamiliar sets from test samples: AUROC in %; 50 is chance. No score is "
            "the best for both: confidence or entropy find mistakes, mutual "
            "information or PDS what is unfamiliar. Each ensemble's AUPR and FPR95 are "
            "in its evaluation.json."
        ),
        scores("AUROC in %", ["data", "method", *titles], auroc_rows(comparison)),
    ]
    drawn = comparison.ood_sets if "pds" in comparison.detecting_scores else ()
    for number, data in enumerate(drawn):
        values = "; ".join(
            f"{method.label} {100 * method.detection(data, 'pds').mean:.1f} %"
            for method in comparison.methods
        )
        parts.append(
            Drawing(
                f"unfamiliar-{number + 1}",
                f"Histograms of PDS and of the largest mean probability on test "
                f"samples and on {data}. AUROC of PDS: {values}.",
                f"Two scores of test samples and of unfamiliar ones ({data}), over "
                "their possible range, all ensembles of a method together; shares are "
                "drawn on a logarithmic scale.",
                ood_histograms(comparison, data),
            )
        )
    return parts


def gallery(group: Group) -> Parts:
    """Return the samples on which members agree and differ most."""
    return galleries(group.comparison)


def sets(group: Group) -> Parts:
    """Return sizes and overlaps of sharpness-aware sets, where a method has any."""
    lines = []
    for entry in group.entries:
        for number, trained in enumerate(entry.result.ensembles):
            summary = trained.summary
            for member, size in enumerate(summary.get("sizes", [])):
                overlaps = ", ".join(
                    f"{overlap:.2f}"
                    for other, overlap in enumerate(summary["overlaps"][member])
                    if other != member
                )
                names = [f"ensemble {number + 1}", f"member {member + 1}"]
                share = f"{size} ({size / summary['samples']:.0%})"
                lines.append([entry.result.label, *names, share, overlaps])
    if not lines:
        return []
    titles = ["method", "ensemble", "member", "samples", "overlap with the others"]
    return [
        paragraph(
            "How many training samples each member sees with SAM after the "
            "switch, and how much of that set it shares with each other member's "
            "(common samples over samples in either)."
        ),
        table("Sharpness-aware sets of all members", titles, lines, words=3),
    ]


def cost(group: Group) -> Parts:
    """Return what training cost, and what a prediction costs."""
    return [*_prediction_cost(group), *_training_cost(group)]


def _prediction_cost(group: Group) -> Parts:
    costs = prediction_table(group)
    if costs is None:
        return []
    about = (
        "Parameters, operations and weights are those of all members together; what "
        "members share counts once. Latency is the median time of one sample alone. "
        "Peak memory is measured on GPUs."
    )
    return [costs, paragraph(about, "note")]


def _training_cost(group: Group) -> Parts:
    costs = cost_table(group)
    if costs is None:
        return []
    about = (
        "Seconds per epoch are those of the steps of all members together, mean over "
        "epochs; scoring is what members take to score data for each other "
        "(SharpBalance), as a share of it and the steps. Training is all of it, from "
        "its beginning to its end. Memory is recorded on GPUs. Times on different "
        "hardware, or beside other work, are not comparable. A dash marks what was not "
        "recorded."
    )
    return [costs, paragraph(about, "note"), *timeline_parts(group)]


SECTIONS: dict[str, Callable[[Group], Parts]] = {
    "Overview": overview,
    "Sharpness and diversity": sharpness_map,
    "Corruptions": corruptions,
    "Reliability": reliability,
    "Mistakes and unfamiliar samples": unfamiliar,
    "Members": members,
    "Gallery": gallery,
    "Sharpness-aware sets": sets,
    "Cost": cost,
}


def scores(caption: str, titles: Sequence[str], shown: Iterable[Row]) -> str:
    """Return rows of data, method and scores as a table."""
    lines: list[list[str | TableCell]] = []
    for row in shown:
        cells = map(TableCell, row.cells, row.best)
        lines.append([row.data, row.method, *cells])
    return table(caption, titles, lines, words=2)


def _introduction(group: Group) -> str:
    counts = {len(entry.result.ensembles) for entry in group.entries}
    errors = "Numbers are means ± standard errors over the ensembles of a method."
    if counts == {1}:
        errors = "One ensemble per method was trained: differences may be chance."
    elif 1 in counts:
        errors += " Those without an error rest on one ensemble and may be chance."
    elif len(counts) == 1:
        errors = (
            f"Numbers are means ± standard errors over {counts.pop()} ensembles per "
            "method."
        )
    return f"Tested on {group.title}. {errors}"


def _origins(entries: Sequence[Entry]) -> str:
    titles = ["method", "from", "model", "members", "ensembles", "epochs", "samples"]
    lines = [
        [
            entry.result.label,
            ", ".join(map(short_path, entry.sources)),
            *(_known(entry.training.get(name)) for name in ("model", "members")),
            str(len(entry.result.ensembles)),
            *(_known(entry.training.get(name)) for name in ("epochs", "samples")),
        ]
        for entry in entries
    ]
    return table("Runs", titles, lines, words=3)


def _known(value: object) -> str:
    return "–" if value is None else str(value)  # noqa: RUF001 - a dash in a table


def _all_scores(comparison: Comparison, name: str, what: str) -> str:
    """Return a score of all methods in a sentence for each kind of data."""
    said = []
    for data in kinds(comparison):
        values = ", ".join(
            f"{method.label} {100 * method.score(data, name).mean:.1f} %"
            for method in comparison.methods
        )
        said.append(f"{what} on {DATA.get(data, data)} data: {values}.")
    return " ".join(said)
