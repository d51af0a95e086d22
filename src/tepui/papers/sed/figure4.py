"""Figure 4: detection against the size of the ensemble, and what a step costs.

Measured at small size, with stand-ins (n = 4; aarch64, torch 2.13.0+cpu): auroc on
imagenet_c1: ensemble_size=2 0.5939 ± 0.01, ensemble_size=5 0.5557 ± 0.0029,
ensemble_size=10 0.5595 ± 0.0069, ensemble_size=20 0.5602 ± 0.0048.

The paper draws SED's AUROC on ImageNet-C at severity 1, and says beside it that SED's
step costs the same for any number of members while that of A2D and DivDis grows with
its square. Step times here are those of the fastest epoch of a short run, divided by
those of the smallest ensemble; they vary with what else the machine does.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sed.protocol import (
    ARCHITECTURE,
    DETECTED,
    LENGTHS,
    Answers,
    asked,
    aurocs,
    settings,
    study_of,
    trials,
)
from tepui.papers.sed.scales import HeadStudy
from tepui.report.curves import Curves, curve_panels
from tepui.studies import Job, Record, Results, Store, Trial, averaged

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TIMED = ("sed_a2d", "a2d", "divdis")
EPOCHS = 3


def numbers(order: Order) -> Iterator[Numbers]:
    """Return SED's AUROCs by size, and the step times of three methods."""
    study = study_of(order)
    for size in study.sizes:
        yield detection(study, size)
    for name in TIMED:
        yield step_times(study, name)


def detection(study: HeadStudy, size: int) -> Numbers:
    """Return SED's AUROCs at one size."""
    runs = trials(study, "sed_a2d", size)

    def records(store: Store, answers: list[Answers]) -> Iterator[Record]:
        found = [aurocs(sets) for sets in answers]
        for dataset in DETECTED:
            yield averaged(
                [each["pds", dataset] for each in found],
                runs,
                item="sed/figure4",
                dataset=dataset,
                architecture=ARCHITECTURE,
                method="sed_a2d",
                metric="auroc",
                unit="fraction",
                at={"ensemble_size": size, "score": "PDS"},
            )

    return asked(study, runs, size, records)


def step_times(study: HeadStudy, name: str) -> Numbers:
    """Return how long the steps of a method take at every size, in short runs."""
    short = {size: trials(study, name, size, epochs=EPOCHS) for size in study.sizes}

    def records(store: Store) -> Iterator[Record]:
        first = _seconds(store, short[study.sizes[0]])
        for size, runs in short.items():
            yield averaged(
                [a / b for a, b in zip(_seconds(store, runs), first, strict=True)],
                runs,
                item="sed/figure4",
                dataset="imagenet_train",
                architecture=ARCHITECTURE,
                method=name,
                metric="relative_step_time",
                unit="ratio",
                at={"ensemble_size": size},
                note=f"time of an epoch over that of {study.sizes[0]} members",
            )

    return Numbers([Job(each) for runs in short.values() for each in runs], records)


def draw(found: Results) -> "Figure":
    """Return a panel for detection and one for the time of a step."""
    detection = found.find(metric="auroc")
    sets = dict.fromkeys(record.dataset for record in detection)
    times = found.find(metric="relative_step_time")
    return curve_panels(
        [
            Curves(
                "SED's detection",
                "ensemble_size",
                "AUROC of PDS",
                {name: [r for r in detection if r.dataset == name] for name in sets},
            ),
            Curves(
                "time of a step",
                "ensemble_size",
                "relative to the smallest",
                {name: [r for r in times if r.method == name] for name in TIMED},
            ),
        ]
    )


def _seconds(store: Store, runs: list[Trial]) -> list[float]:
    """Return the time of the fastest epoch in each repetition."""
    return [min(epoch.seconds for epoch in store.run(each).history) for each in runs]


RECIPE = Recipe(
    title="detection against ensemble size, and the time of a step",
    numbers=numbers,
    settings=lambda order: settings(order, sizes=list(study_of(order).sizes)),
    draw=draw,
    overrides=LENGTHS,
)
