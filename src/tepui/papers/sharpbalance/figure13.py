"""Figure 13: accuracy of members and ensembles of another network, WRN-40-2.

Panels a and b are the corrupted copies of CIFAR-10 and CIFAR-100, c and d their clean
test sets. Below the paper's size a perceptron stands in for the network, on the data
that stand in for the data sets.
"""

from collections.abc import Mapping
from functools import partial

from tepui.models import MLP, WideResNet40x2
from tepui.papers.recipe import Size
from tepui.papers.sharpbalance.bars import Bars, Panel
from tepui.papers.sharpbalance.protocol import SCALES, Scale


def perceptron(width: int, in_features: int = 64) -> MLP:
    """Return a perceptron with two hidden layers."""
    return MLP(in_features=in_features, hidden=(width, width))


def _scales() -> Mapping[Size, Mapping[str, Scale]]:
    paper, small, smoke = SCALES["paper"], SCALES["small"], SCALES["smoke"]
    return {
        "paper": {
            "cifar10": paper["cifar10"]._replace(
                model=partial(WideResNet40x2, num_classes=10), width=16
            ),
            "cifar100": paper["cifar100"]._replace(
                model=partial(WideResNet40x2, num_classes=100), width=16
            ),
        },
        "small": {
            "cifar10": small["cifar10"]._replace(model=perceptron, width=64),
            "cifar100": small["cifar100"]._replace(
                model=partial(perceptron, in_features=784), width=64
            ),
        },
        "smoke": {
            name: smoke[name]._replace(model=perceptron, width=8)
            for name in ("cifar10", "cifar100")
        },
    }


PANELS = {
    "a": Panel("cifar10", True),
    "b": Panel("cifar100", True),
    "c": Panel("cifar10", False),
    "d": Panel("cifar100", False),
}
RECIPE = Bars("sharpbalance/figure13", "wrn_40_2", PANELS, _scales()).recipe(
    "accuracy of members and ensembles of WRN-40-2, corrupted and clean"
)
