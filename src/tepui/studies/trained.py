"""One trained and evaluated ensemble, as its run folder holds it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tepui.core.checks import require
from tepui.core.storage import read_document
from tepui.evaluation.cost import COST, COST_KIND
from tepui.evaluation.evaluations import CLEAN, file_of, read_evaluation
from tepui.training.run_folder import RunFolder

SHARPNESS = "sharpness.json"
SHARPNESS_KIND = "measurement"


@dataclass(frozen=True)
class Trained:
    """One trained and evaluated ensemble.

    Attributes:
        folder: Its run folder, relative to the comparison's.
        seeds: Seeds of its members.
        seconds: How long training took, from its beginning to its end.
        evaluation: Its scores, ready for JSON.
        summary: What the method has to show of it, such as SharpBalance's sets.
        sharpness: Adaptive worst-case sharpness of its members on training data, as
            JSON holds it; None where it was not measured.
        cost: What a prediction costs, as JSON holds it, see
            :class:`tepui.evaluation.PredictionCost`; None where it was not measured.
    """

    folder: str
    seeds: tuple[int, ...]
    seconds: float
    evaluation: Mapping[str, Any]
    summary: Mapping[str, Any]
    sharpness: Mapping[str, Any] | None
    cost: Mapping[str, Any] | None = None


def read_trained(folder: Path) -> Trained:
    """Read a run that was evaluated, or an ensemble that no run trained."""
    run = RunFolder(folder)
    config = run.recorded()["config"] if run.started else {}
    cost, outcome = folder / COST, run.outcome()
    return Trained(
        str(folder),
        tuple(config.get("seeds", ())),
        sum(outcome.timeline.values()),
        _evaluation(folder),
        outcome.summary,
        _sharpness(folder / SHARPNESS),
        read_document(cost, COST_KIND) if cost.is_file() else None,
    )


def _evaluation(folder: Path) -> dict[str, Any]:
    document = read_evaluation(folder)
    needed = {"rule", "members", "samples", "clean", "shifted", "cells", "reliability"}
    missing = needed - document.keys()
    rule = "be an evaluation by tepui with all of its fields"
    require(
        not missing, str(file_of(folder, CLEAN)), rule, f"one without {sorted(missing)}"
    )
    return document


def _sharpness(file: Path) -> dict[str, Any] | None:
    if not file.is_file():
        return None
    document = read_document(file, SHARPNESS_KIND)
    try:
        return {"about": document["about"], **document["found"]["worst_case"]}
    except (KeyError, TypeError) as error:
        raise ValueError(f"{file} must hold a measurement, but: {error!r}") from error
