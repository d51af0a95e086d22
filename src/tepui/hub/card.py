"""A model card, made from an ensemble and its evaluation."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml
from torch import nn

from tepui.core.checks import require
from tepui.core.types import check_types
from tepui.core.version import __version__
from tepui.data.shifts import NATURAL
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation import Evaluation
from tepui.metrics import ConformalSets
from tepui.modules.state import description

USE = """```py
from tepui.hub import from_pretrained

ensemble = from_pretrained("{place}")
out = ensemble.predict(inputs)
```"""
DETECTED = (
    "Detectors of unfamiliar features come with it: `out.unfamiliar()` judges by them, "
    "and `tepui.evaluate` takes `detectors=ensemble.detectors`."
)
UNKNOWN_MODEL = (
    "Members are of a class that tepui does not know: pass "
    "`factory=` to `from_pretrained`, which returns an untrained one; where members "
    "differ, a list with one for each."
)
UNKNOWN_EXTRACTOR = (
    "Members share an extractor that tepui does not know: pass "
    "`extractor=` to `from_pretrained`, which returns it with any weights."
)


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
        *([] if ensemble.detectors is None else [DETECTED]),
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
        metrics = [
            {"type": name, "value": float(value), "name": name.replace("_", " ")}
            for name, value in _known(evaluation.clean.values())
        ]
        result = {
            "task": {"type": evaluation.task.kind.replace(" ", "-")},
            "dataset": {"name": data, "type": data},
            "metrics": metrics,
        }
        head["model-index"] = [{"name": title, "results": [result]}]
    return head


def _about(ensemble: Ensemble) -> Iterator[str]:
    """Yield what an ensemble is, and how it treats what it is given."""
    kinds = sorted({_kind_of(member) for member in ensemble.heads.members})
    task = "not named" if ensemble.task is None else str(ensemble.task)
    rows = {
        "members": str(len(ensemble)),
        "model": ", ".join(kinds),
        "parameters": f"{sum(p.numel() for p in ensemble.parameters()):,}",
        "task": task,
        "made with": f"tepui {__version__}",
    }
    preparation = ensemble.preparation
    if preparation is not None and preparation.classes:
        rows["classes"] = ", ".join(preparation.classes)
    if preparation is not None and preparation.shape is not None:
        rows["images"] = " by ".join(map(str, preparation.shape))
    if preparation is not None and preparation.tokenizer is not None:
        kind, length = type(preparation.tokenizer).__name__, preparation.length
        rows["texts"] = f"{kind}, stored with it; at most {length} tokens"
    if ensemble.calibration is not None:
        rows["calibrated by"] = ensemble.calibration.method
    if ensemble.conformity is not None:
        sets = isinstance(ensemble.conformity, ConformalSets)
        kind = "sets" if sets else "intervals"
        rows[f"conformal {kind}"] = (
            f"for a coverage of {ensemble.conformity.coverage:g}"
        )
    yield (
        "A deep ensemble: several networks whose predictions are averaged, and whose "
        "disagreement says how far to trust them."
    )
    yield _table(["", ""], [[name, value] for name, value in rows.items()])


def _results(evaluation: Evaluation | None, data: str | None) -> Iterator[str]:
    """Yield tables of what an evaluation found, or that there was none."""
    if evaluation is None:
        yield "This ensemble has not been evaluated."
        return
    yield f"On {evaluation.samples} samples of {_plain(str(data))}."
    columns = {"clean": evaluation.clean, "corrupted": evaluation.corrupted_mean}
    columns |= evaluation.natural
    shown = {name: scores for name, scores in columns.items() if scores is not None}
    rows = [
        [name.replace("_", " "), *(f"{s.values()[name]:.4g}" for s in shown.values())]
        for name, _ in _known(evaluation.clean.values())
    ]
    yield _table(["score", *shown], rows)
    if evaluation.corrupted_mean is not None:
        kinds = sorted({kind for kind, hard in evaluation.shifted if hard != NATURAL})
        yield f"Corrupted by {_plain(', '.join(kinds))}: the mean over all copies."
    yield from _applied(evaluation)
    if evaluation.ood:
        yield "How well unfamiliar samples are told from familiar ones (AUROC):"
        scores = list(next(iter(evaluation.ood.values())))
        found = evaluation.ood.items()
        yield _table(
            ["score", *(name for name, _ in found)],
            [
                [
                    score.replace("_", " "),
                    *(f"{by[score].auroc:.4g}" for _, by in found),
                ]
                for score in scores
            ],
        )


def _applied(evaluation: Evaluation) -> Iterator[str]:
    """Yield what calibration and conformal sets give, where there are any."""
    columns = {
        "clean": evaluation.applied,
        "corrupted": evaluation.applied_corrupted_mean,
    }
    columns |= evaluation.applied_natural
    given = {name: found for name, found in columns.items() if found is not None}
    shown = {name: found.values() for name, found in given.items()}
    if "clean" in shown:
        yield "After calibration, and of conformal sets or intervals:"
        rows = [
            [
                name.replace("_", " "),
                *(f"{values[name]:.4g}" for values in shown.values()),
            ]
            for name, _ in _known(shown["clean"])
        ]
        yield _table(["score", *shown], rows)


def _known(values: Mapping[str, float]) -> list[tuple[str, float]]:
    return [(name, value) for name, value in values.items() if math.isfinite(value)]


def _kind_of(member: Any) -> str:
    return str(description(member)["model"])


def _needed(ensemble: Ensemble) -> Iterator[str]:
    """Yield what a reader must bring to load an ensemble."""
    if any(_is_foreign(member) for member in ensemble.heads.members):
        yield UNKNOWN_MODEL
    if ensemble.extractor is not None and _is_foreign(ensemble.extractor):
        yield UNKNOWN_EXTRACTOR


def _is_foreign(module: nn.Module) -> bool:
    return description(module)["config"] is None


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(map(_plain, line))} |" for line in lines)


def _plain(text: str) -> str:
    """Return text that a table's cell or a heading can hold, as it is read."""
    for mark in "\\|<>`[]*":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())
