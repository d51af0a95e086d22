"""Carrying out a recipe: train what is missing, write numbers, table and picture."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from tepui.core.seeding import seeded
from tepui.papers.published import printed
from tepui.papers.recipe import DIFFERS, PAPERS, Order, Recipe
from tepui.papers.writing import as_markdown, free_paths, write_files
from tepui.report.drawing import as_png, as_svg
from tepui.studies import (
    DataSource,
    EvaluationSpec,
    Job,
    Record,
    Results,
    Store,
    Trial,
    carry_out,
)
from tepui.studies.derived_data import Features
from tepui.studies.executors import Executor
from tepui.studies.jobs import IN_PROCESSES
from tepui.studies.results import FILE as RESULTS
from tepui.studies.results import results, write_results
from tepui.studies.specifications import any_draw, digest, made_from, sources_in


def reproduce(
    item: str,
    recipe: Recipe,
    order: Order,
    store: Store,
    out: str | Path,
    *,
    workers: int | None = 1,
    executor: Executor = IN_PROCESSES,
    advance: Callable[[int], None] = lambda steps: None,
    overwrite: bool = False,
) -> Results:
    """Train, test and measure what a figure or table needs, and write it.

    Args:
        item: Its name.
        recipe: What it is.
        order: The size and panels to make, and what to override.
        store: Where trained ensembles are kept.
        out: The folder to write to.
        workers: Ensembles trained at a time; None for as many as the executor has room
            for.
        executor: Who trains them, see :mod:`tepui.studies.executors`.
        advance: Told how many steps were done.
        overwrite: Replace results that are there.

    Returns:
        The numbers.

    Raises:
        FileExistsError: If results are there and ``overwrite`` is false.
        FileNotFoundError: If data are missing; says how to get them.
    """
    free_paths(out, [RESULTS], overwrite=overwrite)
    jobs = recipe.plan(order)
    check_needs(jobs, store)
    carry_out(jobs, store, workers=workers, executor=executor, advance=advance)
    return make(item, recipe, order, jobs, store, out)


def make(
    item: str,
    recipe: Recipe,
    order: Order,
    jobs: Sequence[Job],
    store: Store,
    out: str | Path,
) -> Results:
    """Write a figure or table over what is there, from a store with all of its plan."""
    made = results(
        item,
        recipe.title,
        order.label,
        recipe.described(order),
        recipe.records(store, order),
        store.device,
    )
    contents = {"table.md": table(made).encode()}
    if recipe.draw is not None:
        figure = recipe.draw(made)
        contents |= {
            "figure.svg": as_svg(figure).encode(),
            "figure.png": as_png(figure),
        }
    write_files(out, contents, overwrite=True)
    write_results(out, made)  # last: where it lies, all is there
    return made


def check_needs(jobs: Sequence[Job], store: Store) -> None:
    """Load a draw of all data and build each model, before anything is trained.

    Data are loaded as they are for training: images in files are listed, not decoded.
    Models may need weights that were published.
    """
    missing: dict[str, None] = {}
    # Any draw of samples needs the same files; what is made from others needs none.
    read = [s for job in jobs for s in _sources(job) if not made_from(s)]
    for source in {digest(any_draw(s)): any_draw(s) for s in read}.values():
        try:
            store.dataset(source)
        except FileNotFoundError as error:
            missing[str(error)] = None
    if missing:
        raise FileNotFoundError("\n".join(missing))
    left = [job for job in jobs if job.steps_left(store)]
    models = [model for job in left for model in _models(job)]
    for model in {digest(model): model for model in models}.values():
        with seeded(0, "check"):
            model()


def rows(made: Results) -> list[list[str]]:
    """Return headings, then a row per number, the paper's beside ours."""
    axes = list(dict.fromkeys(name for record in made.records for name in record.at))
    columns = [axis_cells([r.at.get(axis, "") for r in made.records]) for axis in axes]
    return [
        ["item", "dataset", "method", *axes, "metric", "paper", "ours", "n"],
        *(
            [
                _shown(record.item),
                record.dataset,
                record.method,
                *(column[row] for column in columns),
                record.metric,
                paper_cell(record),
                own_cell(record),
                str(record.n),
            ]
            for row, record in enumerate(made.records)
        ),
    ]


def _shown(item: str) -> str:
    """Return an item's name as a table shows it, without its paper."""
    paper, _, name = item.partition("/")
    return name if paper in PAPERS else item


def table(made: Results) -> str:
    """Return the numbers of results beside the paper's, in Markdown."""
    headings, *lines = rows(made)
    text = f"# {made.name}: {made.title}\n\n{as_markdown(headings, lines)}"
    if differs := made.settings.get(DIFFERS):
        text += "\nWhat differs from the paper:\n\n"
        text += "".join(f"- {each}\n" for each in differs)
    if note := made.settings.get("note"):
        text += f"\nNote: {note}\n"
    return text


def axis_cells(values: Sequence[Any]) -> list[str]:
    """Return coordinates in six digits, or in twelve where six make two of them one.

    What comes after these is the noise of floats.

    Example:
        >>> axis_cells([0.1 + 0.2, 1 / 3, 5, "PDS", ""])
        ['0.3', '0.333333', '5', 'PDS', '']
        >>> axis_cells([0.12345678, 0.12345679])
        ['0.12345678', '0.12345679']
    """
    short, long = (
        [f"{v:.{digits}g}" if isinstance(v, float) else str(v) for v in values]
        for digits in (6, 12)
    )
    return short if len({*short}) == len({*long}) else long


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


def _sources(job: Job) -> Iterator[DataSource]:
    """Yield all data that a job needs, and what they are made from."""
    specs = [spec for spec in job.evaluations if isinstance(spec, EvaluationSpec)]
    sources = [
        job.trial.data,
        job.trial.unlabeled,
        *(spec.test for spec in specs),
        *(source for spec in specs for _, source in spec.ood),
        *(spec.data for spec in job.measures),
    ]
    for source in sources:
        if source is not None:
            yield from sources_in(source)


def _models(job: Job) -> Iterator[Callable[[], nn.Module]]:
    """Yield what makes a member, and extractors that come trained."""
    yield job.trial.model
    for source in _sources(job):
        if isinstance(source, Features) and not isinstance(source.extractor, Trial):
            yield source.extractor
