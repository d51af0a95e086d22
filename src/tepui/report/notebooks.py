"""Evaluations, predictions, runs and comparisons as notebooks show them.

Each is a piece of the page: its templates, which escape every name, and its style,
which is kept to the piece. There is no script in it.
"""

import math
import re
from functools import singledispatch

from markupsafe import Markup

from tepui.ensembles import Disagreements
from tepui.evaluation.gallery import Picture, images_at, png, shows_pictures
from tepui.evaluation.results import Evaluation
from tepui.report.by_class import class_parts
from tepui.report.comparison import Comparison, MethodResult, Trained
from tepui.report.cost import seconds_table
from tepui.report.markup import (
    TableCell,
    definitions,
    grouped_table,
    paragraph,
    part,
    table,
    templates,
)
from tepui.report.reliability import has_reliability, reliability_figure
from tepui.report.tables import interval_cell, score_table
from tepui.report.unfamiliar import auroc_table
from tepui.report.wording import DASH
from tepui.studies import Interval, Results
from tepui.studies.results import SHOWN
from tepui.tasks import Prediction
from tepui.training import Run

MOST = 5  # samples of a prediction
NONE = (math.nan, math.nan)  # an interval that is not known


@singledispatch
def html(shown: object) -> str:
    """Return a piece of HTML that shows an object."""
    raise TypeError(f"shown must be of a kind that notebooks show, got {type(shown)}")


@html.register
def _evaluation(shown: Evaluation) -> str:
    trained = Trained("", (), shown.document())
    alone = Comparison((MethodResult("ensemble", (trained,)),))
    parts = [paragraph(_first_line(shown), "facts"), score_table(alone)]
    parts += [reliability_figure(alone)] if has_reliability(alone) else []
    parts += class_parts(alone)
    if shown.ood or shown.mistakes:
        parts.append(auroc_table(alone))
    return _piece(*parts)


@html.register
def _results(shown: Results) -> str:
    whole = [r for r in shown.records if not r.at and r.values]
    names = [name for name in SHOWN if any(r.metric == name for r in whole)]
    names += shown.settings.get("metrics", ())
    groups: dict[str, list[list[str | TableCell]]] = {}
    for data, method in dict.fromkeys((r.dataset, r.method) for r in whole):
        here = {
            r.metric: interval_cell(Interval(r.value, *r.interval or NONE, r.n), 3)
            for r in whole
            if (r.dataset, r.method) == (data, method) and r.value is not None
        }
        if not here.keys().isdisjoint(names):
            cells = [here.get(name, TableCell(DASH)) for name in names]
            groups.setdefault(f"{data} data", []).append([method, *cells])
    title = paragraph(shown.title, "facts")
    headings = ["method", *(name.replace("_", " ") for name in names)]
    caption = "Mean and 95 % interval over ensembles"
    return _piece(title, grouped_table(caption, headings, groups))


@html.register
def _prediction(shown: Prediction) -> str:
    title = paragraph(_first_line(shown), "facts")
    parts = [title, definitions(shown.summary())]
    if shown.task.choices(tuple(shown.outputs.shape)) is not None:
        parts.append(_contradicted(shown))
    return _piece(*parts)


@html.register
def _disagreements(shown: Disagreements) -> str:
    parts, rows = [paragraph(_first_line(shown), "facts")], shown.table
    if rows and shows_pictures(shown.data):
        images = zip(rows, map(png, images_at(shown.data, shown.rows)), strict=True)
        each = [
            Picture(f"sample {at}", int(at), label, said, answer, image)
            for (at, label, answer, *said), image in images
        ]
        parts.append(part("strip", "Label, and what members say of it", each))
    members = [f"member {n}" for n in range(len(shown.answers))]
    headings = ["sample", "label", "ensemble", *members, *["text"] * bool(shown.texts)]
    return _piece(*parts, table("Where members disagree most", headings, rows, words=3))


@html.register
def _run(shown: Run) -> str:
    parts = [paragraph(_first_line(shown), "facts"), definitions(shown.facts())]
    if shown.timeline:
        parts.append(seconds_table({"this run": [shown.timeline]}))
    return _piece(*parts)


def _contradicted(shown: Prediction) -> Markup:
    """Return the samples on which members contradict each other most."""
    names, sure, apart = shown.label_names, shown.confidence, shown.epistemic
    places = apart.topk(min(MOST, len(shown))).indices.tolist()
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
