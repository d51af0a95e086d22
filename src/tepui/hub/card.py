"""A model card, made from an ensemble and its evaluation."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from tepui.core.checks import require
from tepui.core.types import check_types
from tepui.core.version import __version__
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation import Evaluation
from tepui.evaluation.results import by_severity, natural
from tepui.modules.state import description
from tepui.tasks.scores import mean_scores

USE = """```py
from tepui.hub import from_pretrained

ensemble = from_pretrained("{place}")
out = ensemble.predict(inputs)
```"""
UNKNOWN = "The {} is of a class of its author's own: `from_pretrained` needs `{}=`."


def model_card(
    ensemble: Ensemble,
    evaluation: Evaluation | None = None,
    *,
    title: str = "Deep ensemble",
    data: str | None = None,
    license: str | None = None,
    place: str = "PLACE",
) -> str:
    """Return a model card in Markdown.

    Args:
        ensemble: What the card is about.
        evaluation: What :func:`tepui.evaluate` returned for it; its numbers stand in
            the card, and where the hub's own tables read them.
        title: The first heading.
        data: Name of the data that it was evaluated on; needed with ``evaluation``.
        license: Its license by the hub's name, such as ``"apache-2.0"``.
        place: Where readers will find the ensemble.

    Returns:
        The text of a ``README.md``.

    Raises:
        ValueError: If the evaluation is of another number of members, or its data have
            no name.

    Example:
        >>> from torch import nn
        >>> ensemble = Ensemble.build(lambda: nn.Linear(4, 3), members=2)
        >>> "# Two lines" in model_card(ensemble, title="Two lines")
        True
    """
    check_types(model_card, locals())
    if evaluation is not None:
        rule = f"be of this ensemble, which has {len(ensemble)} members"
        same = evaluation.members == len(ensemble)
        require(same, "evaluation", rule, f"{evaluation.members} members")
        require(bool(data), "data", "name the data of the evaluation", data)
    head = _metadata(title, evaluation, data, license)
    parts = [
        f"---\n{yaml.safe_dump(head, sort_keys=False, allow_unicode=True)}---",
        f"# {_plain(title)}",
        *_about(ensemble),
        "## Use",
        USE.format(place=place),
        *_needed(ensemble),
        "## Evaluation",
        *_results(evaluation, data),
    ]
    return "\n\n".join(parts) + "\n"


def _metadata(
    title: str, evaluation: Evaluation | None, data: str | None, license: str | None
) -> dict[str, Any]:
    """Return what the hub reads: library, tags, license and numbers."""
    head: dict[str, Any] = {
        "library_name": "tepui",
        "tags": ["tepui", "deep-ensemble", "uncertainty"],
    }
    if license is not None:
        head["license"] = license
    if evaluation is not None:
        scores = _finite(evaluation.clean)
        result = {
            "task": {"type": evaluation.task.kind.replace(" ", "-")},
            "dataset": {"name": data, "type": data},
            "metrics": [
                {"type": name, "value": float(value), "name": name.replace("_", " ")}
                for name, value in scores.items()
            ],
        }
        head["model-index"] = [{"name": title, "results": [result]}]
    return head


def _about(ensemble: Ensemble) -> Iterator[str]:
    """Yield what an ensemble is, and how it treats what it is given."""
    members = ensemble.heads.members
    kinds = sorted({str(description(member)["model"]) for member in members})
    rows: dict[str, object] = {
        "members": len(ensemble),
        "model": ", ".join(kinds),
        "parameters": f"{sum(p.numel() for p in ensemble.parameters()):,}",
        "task": "not named" if ensemble.task is None else ensemble.task,
        "made with": f"tepui {__version__}",
    }
    if ensemble.preparation is not None and ensemble.preparation.classes:
        rows["classes"] = ", ".join(ensemble.preparation.classes)
    if ensemble.calibration is not None:
        rows["calibrated by"] = ensemble.calibration.method
    if ensemble.conformity is not None:
        rows["conformal"] = f"for {ensemble.conformity}"
    yield (
        "A deep ensemble: several networks whose predictions are averaged, and whose "
        "disagreement says how far to trust them."
    )
    yield _table(["", ""], [[name, str(value)] for name, value in rows.items()])


def _needed(ensemble: Ensemble) -> Iterator[str]:
    """Yield what a reader must bring to load an ensemble."""
    shared = [] if ensemble.extractor is None else [ensemble.extractor]
    parts: dict[str, tuple[str, Any]] = {
        "model": ("factory", ensemble.heads.members),
        "body": ("extractor", shared),
    }
    for part, (argument, modules) in parts.items():
        if any(description(module)["config"] is None for module in modules):
            yield UNKNOWN.format(part, argument)


def _results(evaluation: Evaluation | None, data: str | None) -> Iterator[str]:
    """Yield tables of what an evaluation found, or that there was none."""
    if evaluation is None:
        yield "This ensemble has not been evaluated."
        return
    yield f"On {evaluation.samples} samples of {_plain(str(data))}."
    columns = {"clean": evaluation.clean, "corrupted": evaluation.corrupted_mean}
    yield _scores({**columns, **evaluation.natural})
    if evaluation.applied is not None:
        yield "After calibration, and of conformal sets or intervals:"
        shifted: dict[str, Any] = {}
        if levels := by_severity(evaluation.applied_shifted):
            shifted["corrupted"] = mean_scores(levels.values())
        shifted |= natural(evaluation.applied_shifted)
        yield _scores({"clean": evaluation.applied, **shifted})
    if evaluation.ood:
        yield "How well unfamiliar samples are told from familiar ones (AUROC):"
        found = evaluation.ood
        rows = [
            [
                score.replace("_", " "),
                *(f"{by[score].auroc:.4g}" for by in found.values()),
            ]
            for score in next(iter(found.values()))
        ]
        yield _table(["score", *found], rows)


def _scores(columns: Mapping[str, Any]) -> str:
    """Return a table of scores of several data sets, the first of which has all."""
    shown = {name: scores for name, scores in columns.items() if scores is not None}
    values = [scores.values() for scores in shown.values()]
    rows = [
        [name.replace("_", " "), *(f"{column[name]:.4g}" for column in values)]
        for name in _finite(next(iter(shown.values())))
    ]
    return _table(["score", *shown], rows)


def _finite(scores: Any) -> dict[str, float]:
    return {name: v for name, v in scores.values().items() if math.isfinite(v)}


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(map(_plain, line))} |" for line in lines)


def _plain(text: str) -> str:
    """Return text that Markdown and HTML take for text, in one line."""
    for mark in "\\|<>`[]*":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())
