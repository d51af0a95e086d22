"""``tepui sweep``: hyperparameters of a recipe, or of one's own job."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tepui.cli.console import console, table
from tepui.cli.values import Learned, Loss, Method, Model, Settings, Size, Whole, Words
from tepui.core.checks import require

FILES = ("sweep.json", "table.md")
_WRITTEN = "be written NAME=VALUE,VALUE,…"


def sweep(
    recipe: str | None = None,
    /,
    *,
    grid: Words | None = None,
    size: Size | None = None,
    data: Learned | None = None,
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

    Such as:

        tepui sweep --method SAM --data Digits --grid rho=0.05,0.1,0.2
        tepui sweep sharpbalance/figure7a --grid rho=0.05,0.1,0.2 fraction=0.2,0.4
        tepui sweep --data 'ImageFolder(path=photos)' --grid lr=0.1,0.2 --dry-run

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
    from tepui.cli.members import trackers_named
    from tepui.cli.plan import plan_table, progress_bar, workers_for
    from tepui.core.replacing import check_writable
    from tepui.core.text import counted
    from tepui.papers.reproduce import check_needs, cost
    from tepui.papers.writing import free_paths, write_files
    from tepui.studies.executors import Processes
    from tepui.studies.jobs import merged
    from tepui.studies.store import IN_SILENCE, Store
    from tepui.studies.sweep import peeking, searches
    from tepui.studies.sweep import sweep as carry_out_all

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
