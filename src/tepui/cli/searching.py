"""What ``tepui sweep`` searches over, and how its outcomes are written and shown."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from tepui.cli.items import admit_modules
from tepui.cli.members import materials
from tepui.cli.values import Size
from tepui.core import spec
from tepui.core.checks import require
from tepui.core.provenance import with_short_paths
from tepui.core.storage import seal
from tepui.methods import DeepEnsemble
from tepui.papers.recipe import Order, Recipe, look_up
from tepui.papers.writing import as_json, as_markdown
from tepui.studies import estimate
from tepui.studies.describe import TITLE, describe
from tepui.studies.specifications import Samples, Trial, contents_of, seeds
from tepui.studies.store import Store
from tepui.studies.sweep import Outcome, Search
from tepui.training import TrainingSpec
from tepui.training.environment import environment_of


def trials_of(recipe: str, size: Size) -> list[Trial]:
    """Return the trials of a recipe that are tested."""
    admit_modules([recipe])
    item, looked_up, panels = look_up(recipe)
    if not isinstance(looked_up, Recipe):
        raise ValueError(f"{item} has no methods to vary: it is {looked_up.title}")
    jobs = looked_up.plan(Order(size, looked_up.panels_at(size, panels)))
    trials = [job.trial for job in jobs if job.evaluations]
    require(len(trials) > 0, "recipe", "train and test ensembles", recipe)
    return trials


def own_trials(
    data: Any,
    model: Any,
    method: Any,
    members: int | None,
    epochs: int | None,
    loss: Any,
    ensembles: int,
    further: dict[str, Any],
) -> tuple[list[Trial], str]:
    """Return one trial of one's own per repetition, which differ in seeds; and a name.

    Settings of training are taken out of ``further``.
    """
    rule = "be given, or the name of a figure or table (tepui reproduce --list)"
    require(data is not None, "--data", rule, data)
    chosen = DeepEnsemble() if method is None else method.read()
    rule = "name a method that needs no unlabeled data"
    require(not chosen.needs_unlabeled, "--method", rule, type(chosen).__name__)
    given = materials(data, model, loss, None, None, None, None)
    of_training = {field.name for field in fields(TrainingSpec)} & {*further}
    spec = TrainingSpec(
        method=chosen,
        epochs=12 if epochs is None else epochs,
        loss=given.loss,
        **{name: further.pop(name) for name in of_training},
    )
    samples = Samples(data.read(), contents=contents_of(given.data))
    count = 3 if members is None else members
    trials = [
        Trial(samples, given.factory, spec, seeds(number, count))
        for number in range(ensembles)
    ]
    title = describe(trials[0])[TITLE].partition("(")[0]
    return trials, f"own/{'-'.join(title.split())}"


def document(planned: Search, outcome: Outcome) -> dict[str, Any]:
    """Return a search and its outcome ready for JSON."""
    chosen = outcome.chosen
    return {
        "label": planned.label,
        "base": spec.document(planned.base),
        "chosen": None if chosen is None else dict(chosen.values),
        "cells": [
            {
                "values": dict(row.values),
                "trials": [trial.digest for trial in tried.trials],
                "diverged": row.diverged,
                **{n: list(row.scores.get(n, ())) for n in planned.criterion.shown},
            }
            for tried, row in zip(planned.combinations, outcome.rows, strict=True)
        ],
    }


def contents(
    about: Mapping[str, Any],
    planned: Sequence[Search],
    outcomes: Sequence[Outcome],
    store: Store,
) -> tuple[bytes, bytes]:
    """Return what searches found as sealed JSON, and as Markdown."""
    pairs = [*zip(planned, outcomes, strict=True)]
    environment = environment_of(store.device)
    environment["command"] = with_short_paths(environment["command"])
    found = {
        **about,
        "rule": str(planned[0].criterion),
        "environment": environment,
        "searches": [document(*pair) for pair in pairs],
    }
    tables = [f"## {pair[0].label}\n\n{as_markdown(*cells(*pair))}" for pair in pairs]
    return as_json(seal("sweep", found)), "\n".join(tables).encode()


def cells(planned: Search, outcome: Outcome) -> tuple[list[str], list[list[str]]]:
    """Return the headings and rows of a table of combinations, best marked."""
    shown, rows = planned.criterion.shown, []
    for row in outcome.rows:
        scores = [_score(row.scores.get(name, ())) for name in shown]
        if row.diverged:
            scores[0] = "diverged"
        count = len(row.scores.get(shown[0], ()))
        mark = "*" if row is outcome.chosen else ""
        rows.append([*map(str, row.values.values()), *scores, str(count), mark])
    return [*planned.combinations[0].values, *shown, "n", "chosen"], rows


def _score(values: Sequence[float | None]) -> str:
    score = estimate(values)
    if not score.count:
        return ""
    error = f" ± {score.error:.4f}" if score.count > 1 else ""
    return f"{score.mean:.4f}{error}"
