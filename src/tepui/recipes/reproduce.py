"""Carrying out a recipe: train what is missing, then numbers, table and picture."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tepui.experiments.results import FILE as RESULTS
from tepui.experiments.results import Record, Results, as_csv, results, write_results
from tepui.experiments.store import Store
from tepui.experiments.trials import Source, Trial, samples_in
from tepui.experiments.work import Work, carry_out, merged
from tepui.recipes.base import Order, Recipe
from tepui.recipes.published import printed
from tepui.recipes.writing import as_markdown, free_paths, write_files
from tepui.report.figures import as_png, as_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Cost:
    """What a plan costs.

    Attributes:
        trials: Ensembles in the plan.
        trained: Those that the store has.
        member_epochs: Epochs of training that are left, counted for every member.
        steps: What is left to do in all, tests and measurements included.
    """

    trials: int
    trained: int
    member_epochs: int
    steps: int


def cost(work: Sequence[Work], store: Store) -> Cost:
    """Return what a plan costs.

    Args:
        work: The plan, merged.
        store: Has some of it.

    Returns:
        Its cost.
    """
    left = [each.trial for each in work if not store.is_trained(each.trial)]
    return Cost(
        len(work),
        len(work) - len(left),
        sum(trial.member_epochs for trial in left),
        sum(each.steps_left(store) for each in work),
    )


def reproduce(
    item: str,
    recipe: Recipe,
    order: Order,
    store: Store,
    out: str | Path,
    *,
    workers: int = 1,
    advance: Callable[[int], None] = lambda steps: None,
    overwrite: bool = False,
) -> Results:
    """Make a figure or table.

    Args:
        item: Its name.
        recipe: The recipe of that name.
        order: Which size and panels.
        store: Trained ensembles, shared by all recipes.
        out: The folder for numbers (JSON, CSV), table (Markdown) and picture.
        workers: Trials at a time.
        advance: Told how many of the plan's steps were done.
        overwrite: Replace files that are there.

    Returns:
        The numbers.

    Raises:
        FileExistsError: If results are there and ``overwrite`` is false.
        FileNotFoundError: If data are missing; says how to get them.
    """
    free_paths(out, [RESULTS], overwrite=overwrite)
    work = merged(recipe.plan(order))
    check_data(work, store)
    carry_out(work, store, workers=workers, advance=advance)
    records = recipe.records(store, order)
    settings = {"panels": list(order.panels), **recipe.settings(order)}
    found = results(item, recipe.title, order.size, settings, records, store.device)
    write(out, found, recipe.draw)
    return found


def check_data(work: Sequence[Work], store: Store) -> None:
    """Load all data that lie in files, before anything is trained.

    Raises:
        FileNotFoundError: If some are missing.
    """
    for each in work:
        for source in _sources(each):
            for samples in samples_in(source):
                store.dataset(samples)


def write(
    out: str | Path, found: Results, draw: "Callable[[Results], Figure] | None"
) -> None:
    """Write results, their table and their picture over what is there.

    Args:
        out: The folder.
        found: The results.
        draw: Makes the picture, if there is one.
    """
    contents = {
        "results.csv": as_csv(found).encode(),
        "table.md": table(found).encode(),
    }
    if draw is not None:
        figure = draw(found)
        contents |= {
            "figure.svg": as_svg(figure).encode(),
            "figure.png": as_png(figure),
        }
    write_files(out, contents, overwrite=True)
    write_results(out, found)  # last: where it lies, all is there


def table(found: Results) -> str:
    """Return the numbers of results beside the paper's, in Markdown.

    Args:
        found: The results.

    Returns:
        A heading, a table, what differs from the paper, and a note if there is one.
    """
    axes = list(dict.fromkeys(name for each in found.records for name in each.at))
    headings = ["item", "dataset", "method", *axes, "metric", "paper", "ours", "n"]
    rows = [
        [
            record.item.split("/")[1],
            record.dataset,
            record.method,
            *(str(record.at.get(axis, "")) for axis in axes),
            record.metric,
            paper_cell(record),
            own_cell(record),
            str(record.n),
        ]
        for record in found.records
    ]
    labels = {"differs": "What differs from the paper", "note": "Note"}
    notes = "".join(
        f"\n{label}: {found.settings[key]}\n"
        for key, label in labels.items()
        if found.settings.get(key)
    )
    return f"# {found.item}: {found.title}\n\n{as_markdown(headings, rows)}{notes}"


def paper_cell(record: Record) -> str:
    """Return the paper's number, empty where it prints none."""
    row = printed(record)
    if row is None:
        return ""
    if isinstance(row["value"], list):
        return " to ".join(f"{end:g}" for end in row["value"])
    error = f" ± {row['sem']:g}" if row.get("sem") is not None else ""
    return f"{row['value']:g}{error}"


def own_cell(record: Record) -> str:
    """Return our number with its standard error or, for a fit, its interval."""
    if record.value is None:
        return "not defined"
    if record.sem is not None:
        return f"{record.value:.4g} ± {record.sem:.2g}"
    if record.interval is not None:
        low, high = record.interval
        return f"{record.value:.4g} ({low:.3g} to {high:.3g})"
    return f"{record.value:.4g}"


def _sources(work: Work) -> list[Source]:
    trial: Trial = work.trial
    found: list[Source] = [trial.data]
    found += [] if trial.unlabeled is None else [trial.unlabeled]
    found += [exam.test for exam in work.exams]
    found += [source for exam in work.exams for _, source in exam.ood]
    return found + [m.data for m in work.measures if m.data is not None]
