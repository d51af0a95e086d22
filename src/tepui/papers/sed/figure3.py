"""Figure 3: diversity and detection against the weight of SED's disagreement.

Beside the paper's two curves stands the accuracy on clean images: what it costs.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tepui.methods import SED
from tepui.metrics import Accuracy, Collection, pds
from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sed import protocol
from tepui.papers.sed.protocol import Quantity, Tested, aurocs, per_sample, streamed
from tepui.report.curves import Curves, curve_panels
from tepui.studies import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = {  # title and axis of each metric's panel
    "pds": ("diversity", "mean PDS"),
    "auroc": ("detection", "AUROC of PDS"),
    "accuracy": ("cost", "accuracy in %"),
}


def numbers(order: Order) -> Iterator[Numbers]:
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


def draw(results: Results) -> "Figure":
    """Return a panel for diversity, one for detection and one for the cost."""
    return curve_panels(
        [
            Curves(
                title, "lambda", axis, results.by("dataset", metric=metric), log=True
            )
            for metric, (title, axis) in PANELS.items()
        ]
    )


RECIPE = Recipe(
    title="diversity and detection against the weight of the disagreement",
    numbers=numbers,
    settings=lambda order: protocol.settings(
        order, lambdas=list(protocol.study_of(order).lambdas)
    ),
    draw=draw,
    overrides=protocol.LENGTHS,
)
