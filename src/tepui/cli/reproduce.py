"""``tepui reproduce``: figures and tables of the papers, by name."""

from pathlib import Path

from tepui.cli.console import console
from tepui.cli.values import Executor, Size, Whole, Words

BRIEF = ("small", "smoke")  # sizes whose epochs take seconds
CHECKPOINT_EVERY = 10  # epochs there; after each it took a twentieth of the time


def reproduce(
    *items: str,
    list: bool = False,
    size: Size = "small",
    epochs: Whole | None = None,
    ensembles: Whole | None = None,
    members: Whole | None = None,
    rho: float | None = None,
    methods: Words | None = None,
    out: Path = Path("results"),
    store: Path = Path("runs/store"),
    workers: Whole | None = None,
    executor: Executor | None = None,
    retries: Whole = 2,
    dry_run: bool = False,
    overwrite: bool = False,
    device: str | None = None,
) -> None:
    """Make figures and tables of the papers, our numbers beside theirs.

    Such as:

        tepui reproduce --list
        tepui reproduce sharpbalance/figure7a
        tepui reproduce sed --size smoke --dry-run

    Args:
        items: Names such as sharpbalance/figure7, sharpbalance/figure7a for one panel,
            sharpbalance for a whole paper, all for the three papers;
            mypackage.figure1 for a module with a recipe of your own, figure1 for
            a file figure1.py in this folder.
        list: Only show all names.
        size: paper as published, medium on the paper's data in an hour of a GPU (not
            all items have it), small in minutes, smoke to see it run.
        epochs: Length of each run, if not the size's; recorded with the results, like
            the next four.
        ensembles: Repetitions of each method.
        members: Members of each ensemble.
        rho: Radius of SAM and SharpBalance.
        methods: Names of the methods to train, as the results have them.
        out: Folder of the results; one inside it for each size and item.
        store: Folder of trained ensembles: what is there is not trained again.
        workers: Ensembles to train at once; by default one per available processor, one
            on a GPU; by Ray and Slurm as many as they have room for.
        executor: Who trains: Processes() of this machine by default, Ray() or Slurm(),
            whose folder must lie where all machines reach it.
        retries: How often an ensemble is taken up again after its worker died.
        dry_run: Only show what is left to do.
        overwrite: Replace existing results; trained ensembles are kept.
        device: Where to train; a GPU if there is one.
    """
    from dataclasses import replace
    from itertools import chain

    from tepui.cli.items import (
        catalog,
        is_made,
        items_named,
        plan_table,
        progress_bar,
        show,
        workers_for,
    )
    from tepui.core.replacing import check_writable
    from tepui.papers.recipe import Order
    from tepui.papers.reproduce import check_needs, make
    from tepui.studies.executors import Processes
    from tepui.studies.jobs import carry_out, merged
    from tepui.studies.store import IN_SILENCE, Store

    if list:
        console().print(catalog())
        return
    if not items:
        raise ValueError(
            "the name of a figure or table must be given, such as "
            "sharpbalance/figure7a; tepui reproduce --list shows all"
        )
    named = None if methods is None else tuple(methods)
    order = Order(size, (), epochs, ensembles, members, rho, named)
    chosen = items_named(items, order, out)
    trains = Processes() if executor is None else executor.read()
    every = CHECKPOINT_EVERY if size in BRIEF else 1
    execution = replace(IN_SILENCE, checkpoint_every=every)
    shelf = Store(store, device=device, execution=execution)
    if dry_run:
        plans = {item.asked: item.jobs for item in chosen}
        if len(plans) > 1:
            whole = merged(chain.from_iterable(plans.values()))
            plans["all, each ensemble once"] = whole
        console().print(plan_table("figure or table", plans, shelf))
        return
    for item in chosen:
        check_writable(item.folder)
    check_writable(store)
    waiting = [item for item in chosen if overwrite or not is_made(item)]
    whole = merged(chain.from_iterable(item.jobs for item in waiting))
    check_needs(whole, shelf)
    with progress_bar(sum(job.steps_left(shelf) for job in whole)) as advance:
        for item in waiting:
            carry_out(
                item.jobs,
                shelf,
                workers=workers_for(workers, shelf, trains),
                retries=retries,
                executor=trains,
                advance=advance,
            )
            made = make(
                item.name, item.recipe, item.order, item.jobs, shelf, item.folder
            )
            show(made, item.folder)
