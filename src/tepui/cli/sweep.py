"""``tepui sweep``: hyperparameters of training on one's own data."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tepui.cli.console import console, table
from tepui.cli.values import Data, Loss, Method, Model, Settings, Text, Whole, Words
from tepui.core.checks import require

if TYPE_CHECKING:
    from tepui.studies.sweep import Outcome, Search

_WRITTEN = "be written NAME=VALUE,VALUE,…"


def sweep(
    *,
    grid: Words,
    data: Data = Text("Digits", "data"),  # noqa: B008 - a frozen value
    model: Model | None = None,
    method: Method = Text("DeepEnsemble", "method"),  # noqa: B008
    members: Whole = 3,
    epochs: Whole = 12,
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

    What is trained already is not trained again. Test data are not read.

    Such as:

        tepui sweep --method SAM --data Digits --grid rho=0.05,0.1,0.2
        tepui sweep --method SharpBalance --grid rho=0.05,0.1 fraction=0.2,0.4
        tepui sweep --data 'ImageFolder(path=photos)' --grid lr=0.1,0.2 --dry-run

    Args:
        grid: For each hyperparameter its values, such as rho=0.02,0.05,0.1 or
            width=8,16. A name is a field of the method, optimizer or loss, sparsity, an
            argument of the model, members, epochs or batch_size.
        data: The data set; its training part is used.
        model: The members' architecture; ConvNet by default, for rows of numbers MLP.
            Number of classes, channels and image size follow from the data unless
            given.
        method: How to train.
        members: Members per ensemble.
        epochs: Length of each run.
        loss: What members minimize, which says what their outputs mean and by which
            scores is chosen; CrossEntropy by default.
        ensembles: Repetitions of each combination.
        out: Folder of the results, one inside it for each method and the names in the
            grid.
        store: Folder of trained ensembles, shared with tepui reproduce.
        workers: Ensembles to train at once; by default as tepui reproduce has it.
        dry_run: Only show what is left to do.
        overwrite: Replace existing results; trained ensembles are kept.
        set: Anything else, such as held_out=0.2; tepui settings --of sweep lists it.
    """
    from dataclasses import fields, replace

    from tepui.cli.items import plan_table, progress_bar, workers_for
    from tepui.cli.members import materials, trackers_named
    from tepui.cli.settings import read_settings
    from tepui.core.replacing import check_writable
    from tepui.core.spec import document
    from tepui.papers.reproduce import check_needs
    from tepui.papers.writing import free_paths
    from tepui.studies.executors import Processes
    from tepui.studies.jobs import cost
    from tepui.studies.results import FILE, results, write_results
    from tepui.studies.specifications import Samples, Trial, contents_of, seeds
    from tepui.studies.store import IN_SILENCE, Store
    from tepui.studies.sweep import records_of, search
    from tepui.studies.sweep import sweep as carry_out
    from tepui.training import TrainingSpec

    further, values = read_settings("sweep", set), parsed_grid(grid)
    held_out, retries = further.pop("held_out", 0.1), further.pop("retries", 2)
    trains = further.pop("executor", None) or Processes()
    shared = {"callbacks": trackers_named(further.pop("track", None))}
    on_shelf = {
        name: further.pop(name) for name in ("device", "logits_in") if name in further
    }
    chosen = method.read()
    rule = "name a method that needs no unlabeled data"
    require(not chosen.needs_unlabeled, "method", rule, str(method))
    given = materials(data, model, loss, None, None, None, None)
    of_training = {field.name for field in fields(TrainingSpec)} & {*further}
    how = {name: further.pop(name) for name in of_training}
    spec = TrainingSpec(method=chosen, epochs=epochs, loss=given.loss, **how)
    samples = Samples(data.read(), contents=contents_of(given.data))
    trials = [
        Trial(samples, given.factory, spec, seeds(number, members))
        for number in range(ensembles)
    ]
    planned = search(trials, values, held_out=held_out)
    execution = replace(IN_SILENCE, **further)
    shelf = Store(store, execution=execution, shared=shared, **on_shelf)
    whole, terminal = planned.work, console()
    terminal.print(plan_table("search", {planned.label: whole}, shelf))
    if dry_run:
        return
    name = "-".join(planned.label.partition("(")[0].split())
    folder = out / name / "+".join(sorted(values))
    free_paths(folder, [FILE], overwrite=overwrite)
    check_writable(store)
    check_needs(whole, shelf)
    with progress_bar(cost(whole, shelf).steps) as advance:
        outcome = carry_out(
            planned,
            shelf,
            workers=workers_for(workers, shelf, trains),
            retries=retries,
            executor=trains,
            advance=advance,
        )
    assert outcome.chosen is not None
    about = {"grid": values, "held_out": held_out, "ensembles": ensembles}
    about |= {"rule": str(planned.criterion), "trial": document(planned.base)}
    about |= {"chosen": dict(outcome.chosen.values)}
    told = "sweep", f"Sweep of {planned.label}", "", about, records_of(planned, outcome)
    write_results(folder, results(*told, shelf.device))
    headings, rows = cells(planned, outcome)
    terminal.print(table(planned.label, headings, rows, numbers=headings))
    terminal.print(f"written to {folder}")
    terminal.print("next: tepui train or compare with the values that were chosen (*)")


def parsed_grid(words: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of each hyperparameter.

    Example:
        >>> parsed_grid(["rho=0.05,.1", "select=highest,random", "stratified=true"])
        {'rho': [0.05, 0.1], 'select': ['highest', 'random'], 'stratified': [True]}
    """
    from tepui.cli.settings import plain_value

    grid: dict[str, list[Any]] = {}
    for word in words:
        name, equals, values = word.partition("=")
        texts = [text.strip() for text in values.split(",")]
        require(bool(name and equals and all(texts)), "grid", _WRITTEN, word)
        require(name not in grid, "grid", "name each hyperparameter once", name)
        grid[name] = [plain_value(name, text) for text in texts]
    return grid


def cells(planned: "Search", outcome: "Outcome") -> tuple[list[str], list[list[str]]]:
    """Return the headings and rows of a table of combinations, best marked."""
    from tepui.studies import estimate

    shown, rows = planned.criterion.shown, []
    for row in outcome.rows:
        found = [estimate(row.scores.get(name, ())) for name in shown]
        errors = [f" ± {each.error:.4f}" if each.count > 1 else "" for each in found]
        scores = [f"{s.mean:.4f}{e}" for s, e in zip(found, errors, strict=True)]
        if row.diverged:
            scores = ["diverged", *[""] * (len(shown) - 1)]
        mark = "*" if row is outcome.chosen else ""
        count = str(found[0].count)
        rows.append([*map(str, row.values.values()), *scores, count, mark])
    return [*planned.combinations[0].values, *shown, "n", "chosen"], rows
