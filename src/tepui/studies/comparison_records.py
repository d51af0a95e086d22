"""What came of a comparison, as records: one per method, data, and metric."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tepui.core.checks import require
from tepui.core.spec import differences
from tepui.core.storage import read_document
from tepui.data.shifts import NATURAL
from tepui.evaluation.cost import COST, COST_KIND
from tepui.studies.equal_price import passes
from tepui.studies.job import Job
from tepui.studies.results import FILE, Record, Results, averaged, read_results
from tepui.studies.specifications import Trial
from tepui.studies.store import Store
from tepui.training.run_folder import RunFolder

# Settings that change no result.
_OF_NO_CONSEQUENCE = {"threads", "progress", "workers", "checkpoint_every", "metrics"}
_OF_METHODS = {"methods", "runs"}
OF_MEMBERS = "member_"  # begins the names of scores that each member has
PREDICTION = ("seconds", "parameters", "operations", "bytes")

Key = tuple[str, str, tuple[tuple[str, Any], ...]]  # data, metric, and where else
Found = Mapping[Key, Any]  # a number or, of a score of members, one each


def found_in(store: Store, job: Job) -> Found:
    """Return all numbers of one ensemble: scores, sharpness, and what it cost."""
    trial, folder = job.trial, store.folder(job.trial)
    found: dict[Key, Any] = {}
    for spec in job.evaluations:
        found |= dict(_scores(store.evaluation(trial, spec)))
    for measure in job.measures:
        for name, document in store.measured(trial, measure).items():
            found["training", name, ()] = document["mean"]
    spent = sum(RunFolder(folder).outcome().timeline.values())
    found["training", "epochs", ()] = trial.training.epochs
    found["training", "passes", ()] = passes(trial.training, len(trial.seeds))
    found["training", "seconds", ()] = spent
    if (folder / COST).is_file():
        cost = read_document(folder / COST, COST_KIND)
        found |= {("prediction", name, ()): cost[name] for name in PREDICTION}
    return found


def _scores(evaluation: Mapping[str, Any]) -> Iterator[tuple[Key, Any]]:
    """Yield the scores of an evaluation by data, metric, and where else they stand."""
    tables: list[tuple[str, dict[str, Any], Mapping[str, Any]]] = []
    tables.append(("clean", {}, evaluation["clean"]))
    tables.append(("shifted", {}, evaluation["shifted"] or {}))
    for severity, scores in evaluation.get("severities", {}).items():
        tables.append(("shifted", {"severity": int(severity)}, scores))
    for cell in evaluation["cells"]:
        scores = {n: v for n, v in cell.items() if n not in ("type", "severity")}
        at = {} if cell["severity"] == NATURAL else {"severity": cell["severity"]}
        tables.append((cell["type"], at, scores))
    for kind in ("mistakes", "selective"):
        for score, scores in (evaluation.get(kind) or {}).items():
            tables.append(("clean", {"score": score}, scores))
    for data, by_score in evaluation.get("ood", {}).items():
        for score, scores in by_score.items():
            tables.append((data, {"score": score}, scores))
    for data, at, scores in tables:
        for name, value in scores.items():
            yield (data, name, tuple(at.items())), value


def records_of(
    ensembles: Sequence[Found], trials: Sequence[Trial], names: Mapping[str, Any]
) -> Iterator[Record]:
    """Yield a record for each number that the ensembles of one method have.

    Scores of members stand beside those of ensembles, as records with members only.
    """
    seeds = tuple(seed for trial in trials for seed in trial.seeds)
    for key, first in ensembles[0].items():
        dataset, metric, at = key
        values = [found.get(key) for found in ensembles]
        named = {**names, "dataset": dataset, "at": dict(at), "unit": "none"}
        named |= {"metric": metric, "seeds": seeds}
        if metric.startswith(OF_MEMBERS):
            members = tuple(value for each in values for value in each or ())
            mean = averaged(members, trials, **named)
            yield replace(mean, values=(), members=members, interval=None, sem=None)
        elif first is None or isinstance(first, int | float):
            yield averaged(values, trials, **named)


def prices_of(
    plan: Mapping[tuple[str, int], Job], store: Store, names: Mapping[str, Any]
) -> Iterator[Record]:
    """Yield what an ensemble of each method would cost in training.

    Seconds are known at the pace of ensembles that are trained.
    """
    pace = store.pace([job.trial for job in plan.values()])
    for trial, label in (
        (job.trial, n) for (n, again), job in plan.items() if not again
    ):
        spent = passes(trial.training, len(trial.seeds))
        found = {"epochs": trial.training.epochs, "passes": spent}
        found |= {} if pace is None else {"seconds": pace * spent}
        for metric, value in found.items():
            named = {**names, "dataset": "training", "method": label, "metric": metric}
            yield averaged([value], [], **named)


def earlier_results(
    folder: Path, asked: Sequence[str], settings: Mapping[str, Any]
) -> Results | None:
    """Return what a resumed comparison has already.

    Raises:
        ValueError: If it has other methods than are asked for, under other settings:
            they could not stand in one table.
    """
    if not (folder / FILE).is_file():
        return None
    before = read_results(folder)
    if others := [label for label in before.settings["runs"] if label not in asked]:
        then, now = before.settings, json.loads(json.dumps(settings))
        parts = {name.partition(".")[0] for name in differences(then, now)}
        changed = sorted(parts - _OF_NO_CONSEQUENCE - _OF_METHODS)
        rule = (
            f"hold those of {folder} too ({', '.join(others)}), since these differ: "
            f"{', '.join(changed)}"
        )
        require(not changed, "methods", rule, ", ".join(asked))
    return before
