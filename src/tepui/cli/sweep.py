"""``tepui sweep``: hyperparameters of a recipe, or of one's own job."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tepui.cli.console import console, table
from tepui.cli.values import Data, Loss, Method, Model, Settings, Size, Whole, Words
from tepui.core.checks import require

EXAMPLES = (
    "tepui sweep --method SAM --data Digits --grid rho=0.05,0.1,0.2",
    "tepui sweep sharpbalance/figure7a --grid rho=0.05,0.1,0.2 fraction=0.2,0.4",
    "tepui sweep --data 'ImageFolder(path=photos)' --grid lr=0.1,0.2 --dry-run",
)
FILES = ("sweep.json", "table.md")
_WRITTEN = "be written NAME=VALUE,VALUE,…"


def sweep(
    recipe: str | None = None,
    /,
    *,
    grid: Words | None = None,
    size: Size | None = None,
    data: Data | None = None,
    model: Model | None = None,
    method: Method | None = None,
    members: Whole | None = None,
    epochs: Whole | None = None,
    loss: Loss | None = None,
    ensembles: Whole = 1,
    out: Path = Path("sweeps"),
    store: Path = Path("runs/store"),
    workers: Whole | None = None,
    dry_run: bool = False,
    overwrite: bool = False,
    set: Settings | None = None,
) -> None:
    """Choose hyperparameters on held-out training data.

    Of a recipe, every method that has all names of the grid is trained at each
    combination; without one, --method on --data. What is trained already is not trained
    again. Test data are not read.

    Args:
        recipe: Name such as sharpbalance/figure7, or with one panel.
        grid: For each hyperparameter its values, such as rho=0.02,0.05,0.1 or
            width=8,16. A name is a field of the method, optimizer or loss, sparsity, an
            argument of the model, members, epochs or batch_size.
        size: Of the recipe: paper, medium, small (the default) or smoke.
        data: Your own data set, instead of a recipe; its training part is used.
        model: The members' architecture there; ConvNet by default. Number of classes,
            channels and image size follow from the data unless given.
        method: How to train there; DeepEnsemble by default.
        members: Members per ensemble there; three by default.
        epochs: Length of each run there; 12 by default.
        loss: What members minimize there, which says what their outputs mean and by
            which scores is chosen; CrossEntropy by default.
        ensembles: Repetitions of each combination, of a recipe at most its own.
        out: Folder of the results, one inside it for each recipe and the names in the
            grid.
        store: Folder of trained ensembles, shared with tepui reproduce.
        workers: Ensembles to train at once; by default as tepui reproduce has it.
        dry_run: Only show what is left to do.
        overwrite: Replace existing results; trained ensembles are kept.
        set: Anything else, such as held_out=0.2; tepui settings --of sweep lists it.
    """
    job: dict[str, Any] = {"data": data, "model": model, "method": method}
    job |= {"members": members, "epochs": epochs, "loss": loss}
    from dataclasses import replace
    from itertools import chain

    from tepui.cli import searching
    from tepui.cli.further import read_settings
    from tepui.cli.plan import plan_table, progress_bar, workers_for
    from tepui.cli.training import trackers_named
    from tepui.core.counted import counted
    from tepui.core.replacing import check_writable
    from tepui.papers.reproduce import check_needs, cost
    from tepui.papers.writing import free_paths, write_files
    from tepui.studies.executors import Processes
    from tepui.studies.jobs import merged
    from tepui.studies.store import IN_SILENCE, Store
    from tepui.studies.sweep import peeking, searches
    from tepui.studies.sweep import sweep as carry_out_all
<<<<<<< HEAD
    from tepui.training import TrainingSpec
    from tepui.training.environment import environment_of
=======
>>>>>>> helper/cut

    further, values = read_settings("sweep", set), parsed_grid(grid or ())
    held_out, retries = further.pop("held_out", 0.1), further.pop("retries", 2)
    trains = further.pop("executor", None) or Processes()
    shared = {"callbacks": trackers_named(further.pop("track", None))}
    on_shelf = {
        name: further.pop(name) for name in ("device", "logits_in") if name in further
    }
    if recipe is None:
        require(size is None, "--size", "go with a recipe", size)
        trials, name = searching.own_trials(**job, ensembles=ensembles, further=further)
    else:
        for option, value in {**job, **further}.items():
            require(value is None, option, "be left out with a recipe", value)
        trials = searching.trials_of(recipe, size or "small")
        name = f"{size or 'small'}/{recipe}"
    planned = searches(trials, values, held_out=held_out, ensembles=ensembles)
    execution = replace(IN_SILENCE, **further)
    shelf = Store(store, execution=execution, shared=shared, **on_shelf)
    whole = merged(chain.from_iterable(search.work for search in planned))
    price = cost(whole, shelf)
    console().print(
        f"{counted(len(planned), 'search', 'searches')}, "
        f"{counted(price.trials, 'ensemble')}, {price.trained} trained, "
        f"{counted(price.member_epochs, 'member-epoch')} left"
    )
    if peeks := peeking(trials, values):
        peeked = ", ".join(peeks)
        console().print(f"{peeked} left out: their unlabeled data are test data")
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
            workers=workers_for(workers, shelf, size or "small", trains),
            retries=retries,
            executor=trains,
            advance=advance,
        )
    about = {
        "recipe": recipe,
        "size": None if recipe is None else size or "small",
        "grid": values,
        "held_out": held_out,
        "ensembles": ensembles,
    }
    contents = searching.contents(about, planned, outcomes, shelf)
    write_files(folder, dict(zip(FILES, contents, strict=True)), overwrite=overwrite)
    for search, outcome in zip(planned, outcomes, strict=True):
        headings, rows = searching.cells(search, outcome)
        console().print(table(search.label, headings, rows, numbers=headings))
    console().print(f"written to {folder}")
    console().print("next: tepui train or compare with the values that were chosen (*)")


def parsed_grid(words: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of each hyperparameter.

    Example:
        >>> parsed_grid(["rho=0.05,.1", "select=highest,random", "stratified=true"])
        {'rho': [0.05, 0.1], 'select': ['highest', 'random'], 'stratified': [True]}
    """
    from tepui.cli.further import plain_value

    grid: dict[str, list[Any]] = {}
    for word in words:
        name, equals, values = word.partition("=")
        texts = [text.strip() for text in values.split(",")]
        require(bool(name and equals and all(texts)), "grid", _WRITTEN, word)
        require(name not in grid, "grid", "name each hyperparameter once", name)
        grid[name] = [plain_value(name, text) for text in texts]
    return grid
<<<<<<< HEAD


def _of_recipe(recipe: str, size: Size) -> "list[Trial]":
    """Return the trials of a recipe that are tested."""
    from tepui.cli.items import admit_modules
    from tepui.papers.recipe import Order, Recipe, look_up

    admit_modules([recipe])
    item, looked_up, panels = look_up(recipe)
    if not isinstance(looked_up, Recipe):
        raise ValueError(f"{item} has no methods to vary: it is {looked_up.title}")
    jobs = looked_up.plan(Order(size, looked_up.panels_at(size, panels)))
    trials = [job.trial for job in jobs if job.evaluations]
    require(len(trials) > 0, "recipe", "train and test ensembles", recipe)
    return trials


def _own_trials(
    data: Any,
    model: Any,
    method: Any,
    members: int | None,
    epochs: int | None,
    loss: Any,
    ensembles: int,
    training: Mapping[str, Any],
) -> "list[Trial]":
    """Return one trial of one's own per repetition, which differ in their seeds."""
    from tepui.cli.architecture import fitted
    from tepui.cli.datasets import part
    from tepui.cli.loss import loss_for
    from tepui.losses import task_of
    from tepui.methods import DeepEnsemble
    from tepui.studies.specifications import Samples, Trial, contents_of, seeds
    from tepui.training import TrainingSpec

    chosen = DeepEnsemble() if method is None else method.read()
    rule = "name a method that needs no unlabeled data"
    require(not chosen.needs_unlabeled, "--method", rule, type(chosen).__name__)
    train = part(data.read(), train=True)
    spec = TrainingSpec(
        method=chosen,
        epochs=12 if epochs is None else epochs,
        loss=loss_for(loss, train),
        **training,
    )
    samples = Samples(data.read(), contents=contents_of(train))
    architecture = None if model is None else model.read()
    factory = fitted(architecture, train, task_of(spec.loss))
    count = 3 if members is None else members
    return [
        Trial(samples, factory, spec, seeds(number, count))
        for number in range(ensembles)
    ]


def document(planned: "Search", outcome: "Outcome") -> dict[str, Any]:
    """Return a search and its outcome ready for JSON."""
    from tepui.core import spec

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


def _best(outcomes: "Sequence[Outcome]") -> str:
    """Return what searches have found, in words."""
    rows = [outcome.chosen for outcome in outcomes if outcome.chosen is not None]
    if len(rows) != 1:
        return "the values that were chosen"
    return ", ".join(f"{name} {value}" for name, value in dict(rows[0].values).items())


def _headings(planned: "Search") -> list[str]:
    names = planned.combinations[0].values
    return [*names, *planned.criterion.shown, "n", "chosen"]


def _cells(row: "Row", planned: "Search", outcome: "Outcome") -> list[str]:
    shown = planned.criterion.shown
    scores = [_score(row.scores.get(name, ())) for name in shown]
    if row.diverged:
        scores[0] = "diverged"
    count = len(row.scores.get(shown[0], ()))
    mark = "*" if row is outcome.chosen else ""
    return [*map(str, row.values.values()), *scores, str(count), mark]


def _score(values: Sequence[float | None]) -> str:
    from tepui.studies import estimate

    score = estimate(values)
    if not score.count:
        return ""
    error = f" ± {score.error:.4f}" if score.count > 1 else ""
    return f"{score.mean:.4f}{error}"


def _markdown(planned: "Search", outcome: "Outcome") -> str:
    from tepui.papers.writing import as_markdown

    rows = [_cells(row, planned, outcome) for row in outcome.rows]
    return f"## {planned.label}\n\n{as_markdown(_headings(planned), rows)}"


def _shown(planned: "Search", outcome: "Outcome") -> "Table":
    headings = _headings(planned)
    rows = (_cells(row, planned, outcome) for row in outcome.rows)
    return table(planned.label, headings, rows, numbers=headings)
=======
>>>>>>> helper/cut
