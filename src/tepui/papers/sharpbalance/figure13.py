"""Figure 13: accuracy of members and ensembles of another network, WRN-40-2.

Measured at small size, with stand-ins (n = 3; aarch64, torch 2.13.0+cpu): ensemble
accuracy on cifar10_c: deep_ensemble 89.62 ± 0.077, sam 89.63 ± 0.15, sharpbalance 89.62
± 0.15, sharpbalance_released 89.63 ± 0.14 percent.

Panels a and b are the corrupted copies of CIFAR-10 and CIFAR-100, c and d their clean
test sets. Below the paper's size a perceptron stands in for the network, on the data
that stand in for the data sets.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from tepui.models import MLP, WideResNet40x2
from tepui.papers.recipe import Size
from tepui.papers.sharpbalance.bars import Bars, Shown
from tepui.papers.sharpbalance.protocol import PROTOCOLS, Protocols


def perceptron(width: int, in_features: int = 64) -> MLP:
    """Return a perceptron with two hidden layers."""
    return MLP(in_features=in_features, hidden=(width, width))


MODELS: Mapping[Size, Mapping[str, partial[Any]]] = {
    "paper": {
        "cifar10": partial(WideResNet40x2, num_classes=10, width=16),
        "cifar100": partial(WideResNet40x2, num_classes=100, width=16),
    },
    "small": {
        "cifar10": partial(perceptron, width=64),
        "cifar100": partial(perceptron, in_features=784, width=64),
    },
    "smoke": dict.fromkeys(("cifar10", "cifar100"), partial(perceptron, width=8)),
}
OWN_PROTOCOLS: Protocols = {
    size: {
        dataset: PROTOCOLS[size][dataset]._replace(model=model)
        for dataset, model in models.items()
    }
    for size, models in MODELS.items()
}
PANELS = {
    "a": Shown("cifar10", True),
    "b": Shown("cifar100", True),
    "c": Shown("cifar10", False),
    "d": Shown("cifar100", False),
}
RECIPE = Bars("sharpbalance/figure13", "wrn_40_2", PANELS, OWN_PROTOCOLS).recipe(
    "accuracy of members and ensembles of WRN-40-2, corrupted and clean"
)
