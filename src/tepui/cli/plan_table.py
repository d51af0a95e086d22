"""What a plan costs, as ``--dry-run`` shows it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table

from tepui.cli.console import table
from tepui.papers.reproduce import cost
from tepui.studies.job import Job
from tepui.studies.price import Price, Pricing
from tepui.studies.store import Store

COUNTS = ("ensembles", "trained", "member-epochs left")
PRICES = (
    "hours on an H200",
    "hours here",
    "GB on the device",
    "GB on the host",
    "GB on disk",
)
HOW = (
    "hours: one ensemble after the other; on an H200 as measured with ResNet-18 and in "
    "proportion to operations, which is too little for small networks; here as earlier "
    "runs of the same method and model went"
)
NOT_TIMED = (
    "; ? stands where no such run was made on this machine: the first ensemble that is "
    "trained gives the hours of the others"
)


def plan_table(
    heading: str,
    plans: Mapping[str, Sequence[Job]],
    store: Store,
    runs: Path | None = None,
) -> Table:
    """Return a table with a row for each plan.

    Args:
        heading: What the plans are.
        plans: Their jobs, merged.
        store: What is in it costs nothing.
        runs: Where to look for earlier runs on this hardware; in the store by default.
    """
    pricing = Pricing(store, runs)
    rows, unpriced, timed = [], 0, True
    for name, jobs in plans.items():
        counted, price = cost(jobs, store), pricing.price(jobs)
        counts = counted.trials, counted.trained, counted.member_epochs
        rows.append((name, *map(str, counts), *_shown(price, counted.trials)))
        unpriced = max(unpriced, price.unpriced)
        timed = timed and price.hours_here is not None
    numbers = (*COUNTS, *PRICES)
    shown = table("what there is to do", (heading, *numbers), rows, numbers=numbers)
    shown.columns[0].no_wrap = True
    missing = f"; without {unpriced} ensembles whose data are unknown or yet to be made"
    shown.caption = HOW + ("" if timed else NOT_TIMED) + (missing if unpriced else "")
    return shown


def _shown(price: Price, trials: int) -> tuple[str, ...]:
    if trials and price.unpriced == trials:
        return ("?",) * len(PRICES)
    return (
        _number(price.hours_on_h200),
        "?" if price.hours_here is None else _number(price.hours_here),
        _number(price.device_bytes / 1e9),
        _number(price.host_bytes / 1e9),
        _number(price.disk_bytes / 1e9),
    )


def _number(value: float) -> str:
    return "< 0.01" if 0 < value < 0.01 else f"{value:.2f}"
