"""Figures 3 and 4: SED over the weight of its disagreement, and over its members.

Figure 3 draws diversity and detection; beside the paper's two curves stands the
accuracy on clean images: what it costs. Figure 4 draws SED's AUROC on ImageNet-C at
severity 1, and says beside it that SED's step costs the same for any number of members
while that of A2D and DivDis grows with its square. Step times here are those of the
fastest epoch of a short run, divided by those of the smallest ensemble; they vary with
what else the machine does.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tepui.methods import SED
from tepui.metrics import Accuracy, Collection, pds
from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sed import protocol
from tepui.papers.sed.protocol import Quantity, Tested, aurocs, per_sample, streamed
from tepui.papers.sed.scales import HeadStudy
from tepui.report.curves import Curves, curve_panels
from tepui.studies import Job, Record, Results, Store, Trial, averaged

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = {  # title and axis of each metric's panel
    "pds": ("diversity", "mean PDS"),
    "auroc": ("detection", "AUROC of PDS"),
    "accuracy": ("cost", "accuracy in %"),
}


def by_weight(order: Order) -> Iterator[Numbers]:
    """Return mean PDS, its AUROC and the accuracy on clean images, by weight."""
    study = protocol.study_of(order)
    for weight in study.lambdas:
        runs = protocol.trials(
            study, "sed_a2d", method=SED(weight=weight, active=protocol.ACTIVE)
        )
        at = {"lambda": weight, "ensemble_size": study.members}
        yield protocol.head_numbers(
            "sed/figure3", study, "sed_a2d", runs, effects, at=at
        )


def effects(tested: Tested) -> dict[Quantity, float]:
    """Return what SED does at one weight of its disagreement."""
    values: dict[Quantity, float] = {}
    for quantity, value in aurocs(tested.sets, "pds").items():
        mean = per_sample(pds, tested.sets[quantity.dataset]).mean()
        values[Quantity(quantity.dataset, "pds", "none")] = float(mean)
        values[quantity] = value
    ways = Collection(joined=Accuracy(rule="logit"))
    clean = streamed(ways, tested.sets["imagenet_val"].read())["joined"]
    values[Quantity("imagenet_val", "accuracy", "percent")] = 100 * clean
    return values


def draw_by_weight(results: Results) -> "Figure":
    """Return a panel for diversity, one for detection and one for the cost."""
    return curve_panels(
        [
            Curves(
                title, "lambda", axis, results.by("dataset", metric=metric), log=True
            )
            for metric, (title, axis) in PANELS.items()
        ]
    )


TIMED = ("sed_a2d", "a2d", "divdis")
EPOCHS = 3


def by_size(order: Order) -> Iterator[Numbers]:
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


def draw_by_size(results: Results) -> "Figure":
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


RECIPES = {
    "figure3": Recipe(
        title="diversity and detection against the weight of the disagreement",
        numbers=by_weight,
        settings=lambda order: protocol.settings(
            order, lambdas=list(protocol.study_of(order).lambdas)
        ),
        draw=draw_by_weight,
        overrides=protocol.LENGTHS,
    ),
    "figure4": Recipe(
        title="detection against ensemble size, and the time of a step",
        numbers=by_size,
        settings=lambda order: protocol.settings(
            order, sizes=list(protocol.study_of(order).sizes)
        ),
        draw=draw_by_size,
        overrides=protocol.LENGTHS,
    ),
}
