"""What came of a comparison, as records: one per method, data, and metric.

They tell what averaging gains and by how much methods differ, too. A test sample is
answered by the ensembles of all seeds. Their answers, which an evaluation keeps, tell
how far a difference would change with other seeds and with another test, see
:func:`tepui.studies.crossed_difference`.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.spec import differences
from tepui.core.storage import read_document
from tepui.data.shifts import NATURAL, Cell
from tepui.evaluation.cost import COST, COST_KIND
from tepui.evaluation.evaluations import (
    CLEAN,
    CORRUPTED,
    LOGITS,
    file_of,
    read_evaluation,
)
from tepui.evaluation.stored_logits import LogitRuns
from tepui.metrics import Rule
from tepui.studies.equal_price import passes
from tepui.studies.job import Job
from tepui.studies.results import FILE, Record, Results, averaged, read_results
from tepui.studies.significance import Difference, crossed_difference, holm
from tepui.studies.specifications import Trial
from tepui.studies.store import Store
from tepui.tasks.base import Task
from tepui.tasks.named import read_task
from tepui.training.run_folder import RunFolder

# Settings that change no result.
_OF_NO_CONSEQUENCE = {"threads", "progress", "workers", "checkpoint_every", "metrics"}
_OF_METHODS = {"methods", "runs"}
OF_MEMBERS = "member_"  # begins the names of scores that each member has
CHANCE = 0.05  # of a difference without a reason, among all that are told as firm
HINT = "hint"
SHIFTED = "shifted"
PREDICTION = ("seconds", "parameters", "operations", "bytes")

Place = tuple[str, str]  # a method and a test set
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


def sample_scores(folder: str | Path) -> tuple[str, dict[str, Tensor]]:
    """Return by which score ensembles are told apart, and its value of each sample.

    Args:
        folder: Of an evaluated ensemble.

    Returns:
        The name of the score, empty for a task without one, and for each data set the
        ensemble's values and the means over its members, ``(2, samples)``. Their means
        are the scores of the evaluation. If outputs were not kept, or are of pixels,
        these alone are known.
    """
    found = read_evaluation(folder)
    task = read_task(found.get("task"))
    score = task.measure or ""
    names = score, f"individual_{score}"
    if score not in found["clean"]:
        return "", {}
    scores: dict[str, Tensor] = {}
    for data, (table, cells) in _sets(found).items():
        runs = _runs(Path(folder), data, cells)
        known = [torch.tensor([[table[name]] for name in names], dtype=torch.float64)]
        each = [_of_samples(run, task, found["rule"]) for run in runs] or known
        scores[data] = torch.stack(each).mean(0)
    return score, scores


def _sets(
    evaluation: Mapping[str, Any],
) -> dict[str, tuple[Mapping[str, Any], list[Cell | None]]]:
    """Return the scores on each data set, and the cells that they are means of."""
    sets: dict[str, tuple[Mapping[str, Any], list[Cell | None]]] = {
        CLEAN: (evaluation[CLEAN], [None])
    }
    if evaluation["shifted"]:
        sets[SHIFTED] = evaluation["shifted"], []
    for cell in evaluation["cells"]:
        place = cell["type"], cell["severity"]
        if cell["severity"] == NATURAL:
            sets[cell["type"]] = cell, [place]
        else:
            sets[SHIFTED][1].append(place)
    return sets


def _runs(folder: Path, data: str, cells: Sequence[Cell | None]) -> list[LogitRuns]:
    """Return the outputs of a data set; none if they were not kept or are of pixels."""
    if not file_of(folder, CORRUPTED if data == SHIFTED else data, LOGITS).is_file():
        return []
    runs = [LogitRuns.open(folder, cell) for cell in cells]
    return runs if all(len(run.array.shape) == 3 for run in runs) else []


def _of_samples(run: LogitRuns, task: Task, rule: Rule) -> Tensor:
    """Return what is right of each sample, or its part of the root of squared errors.

    The part is :math:`r + (e_i - r^2) / 2r`, the first order of the root's change.
    """
    parts = []
    for outputs, targets in run.read():
        assert targets is not None, "shifted data have labels"
        given = torch.stack([task.answers(one, targets)[0] for one in outputs])
        _, wanted = task.answers(outputs[0], targets)
        numbers = given.is_floating_point()
        whole = given.mean(0) if numbers else task.prediction(outputs, rule=rule).labels
        answers = torch.cat([whole[None], given])
        found = (answers - wanted).square() if numbers else answers == wanted
        parts.append(found.double().flatten(2).mean(2) if found.ndim > 2 else found)
    values = torch.cat(parts, 1).double()
    if numbers:
        root = values.mean(1, keepdim=True).sqrt()
        values = root + (values - root.square()) / (2 * root)
    return torch.stack([values[0], values[1:].mean(0)])


def contrast_records(
    runs: Mapping[str, Sequence[Path]], names: Mapping[str, Any]
) -> Iterator[Record]:
    """Yield what averaging gains under each method, and methods less the first.

    Intervals are over seeds and test samples. What chance could bring, or what has no
    known interval, is a hint by its note. Whether averaging helps is asked on each
    test set of the method named first, and of the others, corrected after Holm, only
    once it helps there. Whether methods differ is one family, each less the first on
    each test set, corrected after Holm.

    Args:
        runs: Folders of ensembles by the methods' labels; those at one place share
            their seeds.
        names: Further fields of the records.
    """
    found = {label: [*map(sample_scores, each)] for label, each in runs.items()}
    base, ((score, sets), *_) = next(iter(found.items()))
    whole = {
        (label, data): torch.stack([scores[data] for _, scores in each])
        for label, each in found.items()
        for data in sets
    }
    gains = {place: both[:, 0] - both[:, 1] for place, both in whole.items()}
    less = {
        (label, data): both[:, 0] - whole[base, data][:, 0]
        for (label, data), both in whole.items()
        if label != base
    }
    for metric, table, at in (
        ("gain", gains, {}),
        ("difference", less, {"from": base}),
    ):
        known = {place: crossed_difference(values) for place, values in table.items()}
        p_values = {place: each.p for place, each in known.items()}
        one_family = metric == "difference"
        corrected = corrected_together(p_values, None if one_family else base)
        for (label, data), each in known.items():
            named = {**names, "method": label, "dataset": data, "at": at}
            values, p = table[label, data].mean(1).tolist(), corrected[label, data]
            yield _record(each, values, p, metric=f"{score}_{metric}", **named)


def corrected_together(
    p_values: Mapping[Place, float], first: str | None = None
) -> dict[Place, float]:
    """Return p-values of methods on test sets, corrected for their number.

    All of them are one family. With a method that is asked first, each test set has a
    family of its own: that method's p-value stays, and others, which are at least as
    large, are corrected among themselves. Such a fixed order errs in any of a set with
    a probability of at most the level, too.

    Example:
        >>> both = {("a", "clean"): 0.04, ("b", "clean"): 0.03, ("c", "clean"): 0.01}
        >>> corrected_together(both, "a").values()
        dict_values([0.04, 0.04, 0.04])
        >>> [round(p, 2) for p in corrected_together(both).values()]
        [0.06, 0.06, 0.03]
    """
    if first is None:
        return dict(zip(p_values, holm([*p_values.values()]), strict=True))
    corrected = {}
    for data in dict.fromkeys(data for _, data in p_values):
        least = p_values[first, data]
        corrected[first, data] = least
        others = [place for place in p_values if place[1] == data and place[0] != first]
        for place, p in zip(others, holm([p_values[o] for o in others]), strict=True):
            corrected[place] = max(least, p)
    return corrected


def _record(
    found: Difference, values: Sequence[float], p: float, **names: Any
) -> Record:
    interval = None if math.isnan(found.low) else (found.low, found.high)
    record = averaged(values, [], unit="none", **names)
    return replace(record, interval=interval, note="" if p <= CHANCE else HINT)
