"""Evaluations, predictions, runs and comparisons as notebooks show them.

Each is a piece of the page: its templates, which escape every name, and its style,
which is kept to the piece. There is no script in it.
"""

import re
from functools import singledispatch
from pathlib import Path

from markupsafe import Markup

from tepui.evaluation.results import Evaluation
from tepui.report.by_class import class_parts
from tepui.report.label_errors import has_labels, label_figure
from tepui.report.markup import definitions, paragraph, table, templates
from tepui.report.reliability import has_reliability, reliability_figure
from tepui.report.sections import summary
from tepui.report.tables import score_table
from tepui.report.timeline import activity_figure
from tepui.report.unfamiliar import auroc_table, histogram_figure
from tepui.studies import Comparison, MethodResult, Trained
from tepui.studies.load_reports import Entry, Group
from tepui.tasks import Prediction
from tepui.training import Run
from tepui.training.history import Outcome

SHOWN = 5  # samples of a prediction
NOWHERE = Path()  # what is in memory comes from no folder


@singledispatch
def html(shown: object) -> str:
    """Return a piece of HTML that shows an object."""
    raise TypeError(f"shown must be of a kind that notebooks show, got {type(shown)}")


@html.register
def _evaluation(shown: Evaluation) -> str:
    trained = Trained(str(NOWHERE), (), 0.0, shown.document(), {}, None)
    method = MethodResult("ensemble", {}, (trained,))
    alone = Comparison("evaluation", {}, {}, (method,))
    parts = [paragraph(_first_line(shown), "facts"), score_table(alone)]
    parts += [reliability_figure(alone)] if has_reliability(alone) else []
    parts += [label_figure(alone)] if has_labels(alone) else []
    parts += class_parts(_group(alone), "Evaluation.by_class")
    if shown.ood or shown.mistakes:
        parts.append(auroc_table(alone))
    if "pds" in alone.detecting_scores:
        parts += [histogram_figure(alone, data) for data in alone.ood_sets]
    return _piece(*parts)


@html.register
def _comparison(shown: Comparison) -> str:
    title = paragraph(shown.title, "facts")
    return _piece(title, *summary(_group(shown)), score_table(shown))


@html.register
def _prediction(shown: Prediction) -> str:
    title = paragraph(_first_line(shown), "facts")
    parts = [title, definitions(shown.summary())]
    if shown.task.choices(tuple(shown.outputs.shape)) is not None:
        parts.append(_contradicted(shown))
    return _piece(*parts)


@html.register
def _run(shown: Run) -> str:
    parts = [paragraph(_first_line(shown), "facts"), definitions(shown.facts())]
    if shown.timeline:
        timelines = {"this run": shown.timeline}
        parts.append(activity_figure(timelines, [*timelines]))
    return _piece(*parts)


def _group(comparison: Comparison) -> Group:
    """Return a comparison in the form that sections take."""
    entries = tuple(
        Entry(
            method,
            (NOWHERE,),
            comparison.settings,
            (Outcome(),) * len(method.ensembles),
        )
        for method in comparison.methods
    )
    return Group(None, entries)


def _contradicted(shown: Prediction) -> Markup:
    """Return the samples on which members contradict each other most."""
    names, sure, apart = shown.label_names, shown.confidence, shown.epistemic
    places = apart.topk(min(SHOWN, len(shown))).indices.tolist()
    rows = [
        [str(at), names[at], f"{float(sure[at]):.3f}", f"{float(apart[at]):.3f}"]
        for at in places
    ]
    headings = ["sample", "label", "confidence", "epistemic"]
    return table("Where members contradict each other most", headings, rows, words=2)


def _first_line(shown: object) -> str:
    return str(shown).partition("\n")[0]


def _piece(*parts: Markup) -> str:
    """Return parts of a page with its style, which does not reach beyond them."""
    style = templates().get_template("style.css").render()
    within = re.sub(r"^body\b|:root\b", ":scope", style, flags=re.MULTILINE)
    piece = templates().get_template("piece.html.j2")
    return piece.render(style=Markup(within), parts=parts)
