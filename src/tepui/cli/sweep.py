"""``tepui sweep``: hyperparameters of a recipe, or of one's own job."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from rich.table import Table
from torch import nn

from tepui.cli.console import console, table
from tepui.cli.datasets import Data
from tepui.cli.executors import DEFAULT_RAY, DEFAULT_SLURM, executor_named
from tepui.cli.known import KnownLoss
from tepui.cli.loss import loss_named
from tepui.cli.own_trials import check_unused, own_trials, written_settings
from tepui.cli.plan_table import plan_table
from tepui.cli.reproduce import admit_modules, progress_bar, workers_for
from tepui.cli.tracking import TrackerName, trackers_named
from tepui.core.checks import require
from tepui.core.counted import counted
from tepui.core.provenance import with_short_paths
from tepui.core.replacing import check_writable
from tepui.core.storage import seal
from tepui.evaluation.stored_logits import LogitType
from tepui.methods import DeepEnsemble, Method
from tepui.papers.recipe import Order, Recipe, Size, look_up
from tepui.papers.reproduce import check_needs, cost
from tepui.papers.writing import as_json, as_markdown, free_paths, write_files
from tepui.studies import estimate
from tepui.studies.describe import TITLE, describe
from tepui.studies.executors import RETRIES, ExecutorName, Ray, Slurm
from tepui.studies.jobs import merged
from tepui.studies.specifications import Trial
from tepui.studies.store import IN_SILENCE, Store
from tepui.studies.sweep import Outcome, Row, Search, peeking, searches
from tepui.studies.sweep import sweep as carry_out_all
from tepui.training import SGD, AdamW, ExecutionSpec, TrainingSpec
from tepui.training.described import environment_of, to_jsonable

EXAMPLE = "tepui sweep sharpbalance/figure7a --grid rho=0.05,0.1,0.2 fraction=0.2,0.4"
FILES = ("sweep.json", "table.md")
_WRITTEN = "be written NAME=VALUE,VALUE,…"


def sweep(
    settings: Mapping[str, Any],
    recipe: str | None = None,
    grid: list[str] | None = None,
    size: Size | None = None,
    data: Data | None = None,
    model: Callable[[], nn.Module] | None = None,
    method: Method | None = None,
    members: int | None = None,
    epochs: int | None = None,
    optimizer: SGD | AdamW | None = None,
    loss: KnownLoss | None = None,
    label_smoothing: float | tuple[float, ...] = 0.0,
    class_weights: list[float] | Literal["balanced"] | None = None,
    held_out: float = 0.1,
    ensembles: int = 1,
    out: Path = Path("sweeps"),
    store: Path = Path("runs/store"),
    logits_in: LogitType = "float32",
    workers: int | None = None,
    executor: ExecutorName = "processes",
    retries: int = RETRIES,
    ray: Ray = DEFAULT_RAY,
    slurm: Slurm = DEFAULT_SLURM,
    dry_run: bool = False,
    track: list[TrackerName] | None = None,
    overwrite: bool = False,
    device: str | None = None,
) -> None:
    """Choose hyperparameters on held-out training data.

    Of a recipe, every method that has all names of the grid is trained at each
    combination; without one, --method on --data. What is trained already is not trained
    again. Test data are not read.

    Args:
        settings: Further fields of TrainingSpec and ExecutionSpec, one option each, of
            a job of your own.
        recipe: Name such as ``sharpbalance/figure7``, or with one panel; only from the
            command line.
        grid: For each hyperparameter its values, such as ``rho=0.02,0.05,0.1`` or
            ``width=8,16``. A name is a field of the method, optimizer or loss,
            ``sparsity``, an argument of the model, ``members``, ``epochs`` or
            ``batch_size``.
        size: Of the recipe: ``paper``, ``medium``, ``small`` (the default) or
            ``smoke``.
        data: Your own data set, instead of a recipe; its training part is used.
        model: The members' architecture there; ConvNet by default. Number of classes,
            channels and image size follow from the data unless given.
        method: How to train there; DeepEnsemble by default.
        members: Members per ensemble there; three by default.
        epochs: Length of each run there; 12 by default.
        optimizer: SGD (learning rate 0.1) by default there, or AdamW.
        loss: What members minimize there, which says what their outputs mean and by
            which scores is chosen; CrossEntropy by default.
        label_smoothing: Share of each target spread over all classes by CrossEntropy
            there; one value, or one per member.
        class_weights: A factor on the loss of every class by CrossEntropy there, or
            balanced.
        held_out: Share of the training data to score on.
        ensembles: Repetitions of each combination, of a recipe at most its own.
        out: Folder of the results, one inside it for each recipe and the names in the
            grid.
        store: Folder of trained ensembles, shared with ``tepui reproduce``.
        logits_in: How logits are stored, which no search reads: float32, float16 for
            half the space, or none.
        workers: Ensembles to train at once; by default one per available processor, on
            a GPU no more than its memory holds, and one at ``paper`` and ``medium``
            size; by ray and slurm as many as they have room for.
        executor: Who trains: ``processes`` of this machine, ``ray`` or ``slurm``, which
            the extras of these names install. The folder must then lie where all
            machines reach it.
        retries: How often an ensemble is taken up again after its worker died.
        ray: Of executor ray.
        slurm: Of executor slurm.
        dry_run: Only show what is left to do and what it costs.
        track: Show every run in tensorboard (event files in its folder), mlflow or
            wandb, or several of them; the extra track installs them.
        overwrite: Replace existing results; trained ensembles are kept.
        device: Where to train; a GPU if there is one.
    """
    values = parsed(grid or [])
    execution = IN_SILENCE
    if recipe is not None:
        size = size or "small"
        _check_left_out(data=data, model=model, method=method, members=members)
        _check_left_out(epochs=epochs, optimizer=optimizer, class_weights=class_weights)
        _check_left_out(loss=loss, label_smoothing=label_smoothing or None)
        check_unused(settings, TrainingSpec, ExecutionSpec)
        trials, name = _of_recipe(recipe, size), f"{size}/{recipe}"
    elif data is None:
        raise ValueError(
            "the name of a figure or table must be given (tepui reproduce --list shows "
            "all), or --data to sweep over your own"
        )
    else:
        require(size is None, "--size", "go with a recipe", size)
        training = {
            "method": method or DeepEnsemble(),
            "epochs": 12 if epochs is None else epochs,
            "optimizer": optimizer or SGD(),
            "loss": loss_named(loss, label_smoothing, class_weights),
            **written_settings(settings, TrainingSpec),
        }
        trials = own_trials(
            data, model, 3 if members is None else members, ensembles, training
        )
        execution = replace(execution, **written_settings(settings, ExecutionSpec))
        name = f"own/{_title(trials[0])}"
    planned = searches(trials, values, held_out=held_out, ensembles=ensembles)
    shared = {"callbacks": trackers_named(track)}
    shelf = Store(
        store, device=device, execution=execution, logits_in=logits_in, shared=shared
    )
    whole = merged(chain.from_iterable(search.work for search in planned))
    price = cost(whole, shelf)
    searched = counted(len(planned), "search", "searches")
    ensembles_in_words = counted(price.trials, "ensemble")
    left = counted(price.member_epochs, "member-epoch")
    console().print(
        f"{searched}, {ensembles_in_words}, {price.trained} trained, {left} left"
    )
    if peeks := peeking(trials, values):
        names = ", ".join(peeks)
        console().print(f"{names} left out: their unlabeled data are test data")
    if dry_run:
        plans = {search.label: merged(search.work) for search in planned}
        console().print(plan_table("search", {**plans, "all": whole}, shelf))
        return
    folder = out / name / "+".join(sorted(values))
    free_paths(folder, FILES, overwrite=overwrite)
    check_writable(store)
    check_needs(whole, shelf)
    with progress_bar(price.steps) as advance:
        outcomes = carry_out_all(
            planned,
            shelf,
            workers=workers_for(workers, shelf, size or "small", executor),
            retries=retries,
            executor=executor_named(executor, ray, slurm),
            advance=advance,
        )
    pairs = [*zip(planned, outcomes, strict=True)]
    environment = environment_of(shelf.device)
    environment["command"] = with_short_paths(environment["command"])
    about = {
        "recipe": recipe,
        "size": size,
        "grid": values,
        "held_out": held_out,
        "ensembles": ensembles,
        "rule": str(planned[0].criterion),
        "environment": environment,
        "searches": [document(*pair) for pair in pairs],
    }
    contents = {
        "sweep.json": as_json(seal("sweep", about)),
        "table.md": "\n".join(map(_markdown, *zip(*pairs, strict=True))).encode(),
    }
    write_files(folder, contents, overwrite=overwrite)
    for pair in pairs:
        console().print(_shown(*pair))
    console().print(f"written to {folder}")
    console().print(f"next: tepui train or compare with {_best(outcomes)}")


def _best(outcomes: Sequence[Outcome]) -> str:
    """Return what searches have found, in words."""
    rows = [outcome.chosen for outcome in outcomes if outcome.chosen is not None]
    if len(rows) != 1:
        return "the values that were chosen"
    return ", ".join(f"{name} {value}" for name, value in dict(rows[0].values).items())


def _check_left_out(**options: Any) -> None:
    """Raise if an option of one's own jobs is given beside a recipe."""
    for name, value in options.items():
        option = f"--{name}".replace("_", "-")
        require(value is None, option, "be left out with a recipe", value)


def _of_recipe(recipe: str, size: Size) -> list[Trial]:
    """Return the trials of a recipe that are tested."""
    admit_modules([recipe])
    item, looked_up, panels = look_up(recipe)
    if not isinstance(looked_up, Recipe):
        raise ValueError(f"{item} has no methods to vary: it is {looked_up.title}")
    jobs = looked_up.plan(Order(size, looked_up.panels_at(size, panels)))
    trials = [job.trial for job in jobs if job.evaluations]
    require(len(trials) > 0, "recipe", "train and test ensembles", recipe)
    return trials


def _title(trial: Trial) -> str:
    """Return what a trial trains on what, as the name of a folder."""
    made_by = describe(trial)[TITLE].partition("(")[0]
    return "-".join(made_by.split())


def parsed(grid: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of each hyperparameter.

    Example:
        >>> parsed(["rho=0.05,.1", "select=highest,random", "stratified=true"])
        {'rho': [0.05, 0.1], 'select': ['highest', 'random'], 'stratified': [True]}
    """
    parsed_grid: dict[str, list[Any]] = {}
    for word in grid:
        name, equals, values = word.partition("=")
        texts = [text.strip() for text in values.split(",")]
        require(bool(name and equals and all(texts)), "grid", _WRITTEN, word)
        require(name not in parsed_grid, "grid", "name each hyperparameter once", name)
        parsed_grid[name] = [_value(text) for text in texts]
    return parsed_grid


def document(planned: Search, outcome: Outcome) -> dict[str, Any]:
    """Return a search and its outcome ready for JSON."""
    chosen = outcome.chosen
    return {
        "label": planned.label,
        "base": to_jsonable(planned.base),
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


def _value(text: str) -> Any:
    decimal = f"0{text}" if text.startswith(".") else text  # .5, which JSON refuses
    try:
        return json.loads(decimal, parse_constant=str)
    except json.JSONDecodeError:
        return text


def _headings(planned: Search) -> list[str]:
    return [
        *planned.combinations[0].values,
        *planned.criterion.shown,
        *("n", "chosen"),
    ]


def _cells(row: Row, planned: Search, outcome: Outcome) -> list[str]:
    shown = planned.criterion.shown
    scores = [_score(row.scores.get(name, ())) for name in shown]
    if row.diverged:
        scores[0] = "diverged"
    count = len(row.scores.get(shown[0], ()))
    mark = "*" if row is outcome.chosen else ""
    return [*map(str, row.values.values()), *scores, str(count), mark]


def _score(values: Sequence[float | None]) -> str:
    score = estimate(values)
    if not score.count:
        return ""
    error = f" ± {score.error:.4f}" if score.count > 1 else ""
    return f"{score.mean:.4f}{error}"


def _markdown(planned: Search, outcome: Outcome) -> str:
    rows = [_cells(row, planned, outcome) for row in outcome.rows]
    return f"## {planned.label}\n\n{as_markdown(_headings(planned), rows)}"


def _shown(planned: Search, outcome: Outcome) -> Table:
    headings = _headings(planned)
    rows = (_cells(row, planned, outcome) for row in outcome.rows)
    return table(planned.label, headings, rows, numbers=headings)
