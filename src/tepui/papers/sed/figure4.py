"""Figure 4: detection against the size of the ensemble, and what a step costs.

The paper draws SED's AUROC on ImageNet-C at severity 1, and says beside it that SED's
step costs the same for any number of members while that of A2D and DivDis grows with
its square. Step times here are those of the fastest epoch of a short run, divided by
those of the smallest ensemble; they vary with what else the machine does.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sed import protocol
from tepui.papers.sed.scales import HeadStudy
from tepui.report.curves import Curves, curve_panels
from tepui.studies import Job, Record, Results, Store, Trial, averaged

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TIMED = ("sed_a2d", "a2d", "divdis")
EPOCHS = 3


def numbers(order: Order) -> Iterator[Numbers]:
    """Return SED's AUROCs by size, and the step times of three methods."""
    study = protocol.study_of(order)
    for size in study.sizes:
        yield protocol.head_numbers(
            "sed/figure4",
            study,
            "sed_a2d",
            protocol.trials(study, "sed_a2d", size),
            lambda tested: protocol.aurocs(tested.sets, "pds"),
            size,
        )
    for name in TIMED:
        yield step_times(study, name)


def step_times(study: HeadStudy, name: str) -> Numbers:
    """Return how long the steps of a method take at every size, in short runs."""
    short = {
        size: protocol.trials(study, name, size, epochs=EPOCHS) for size in study.sizes
    }

    def records(store: Store) -> Iterator[Record]:
        first = _seconds(store, short[study.sizes[0]])
        for size, runs in short.items():
            yield averaged(
                [a / b for a, b in zip(_seconds(store, runs), first, strict=True)],
                runs,
                item="sed/figure4",
                dataset="imagenet_train",
                architecture=protocol.ARCHITECTURE,
                method=name,
                metric="relative_step_time",
                unit="ratio",
                at={"ensemble_size": size},
                note=f"time of an epoch over that of {study.sizes[0]} members",
            )

    return Numbers([Job(run) for runs in short.values() for run in runs], records)


def draw(results: Results) -> "Figure":
    """Return a panel for detection and one for the time of a step."""
    axis, auroc = "ensemble_size", results.by("dataset", metric="auroc")
    times = results.by("method", metric="relative_step_time")
    return curve_panels(
        [
            Curves("SED's detection", axis, "AUROC of PDS", auroc),
            Curves("time of a step", axis, "relative to the smallest", times),
        ]
    )


def _seconds(store: Store, runs: list[Trial]) -> list[float]:
    """Return the time of the fastest epoch in each repetition."""
    return [min(epoch.seconds for epoch in store.run(run).history) for run in runs]


RECIPE = Recipe(
    title="detection against ensemble size, and the time of a step",
    numbers=numbers,
    settings=lambda order: protocol.settings(
        order, sizes=list(protocol.study_of(order).sizes)
    ),
    draw=draw,
    overrides=protocol.LENGTHS,
)
