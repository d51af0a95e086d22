"""Figure 7: accuracy of members and ensembles, in distribution and corrupted.

Measured at small size, with stand-ins (n = 3; aarch64, torch 2.13.0+cpu): ensemble
accuracy on cifar10_c: deep_ensemble 81.57 ± 0.6, sam 81.74 ± 1.2, sharpbalance 81.7 ±
1.1, sharpbalance_released 81.67 ± 1.1 percent.

Panels a to c are the corrupted copies of CIFAR-10, CIFAR-100 and TinyImageNet, d to f
their clean test sets.
"""

from tepui.papers.sharpbalance.bars import Bars, Shown
from tepui.papers.sharpbalance.protocol import DATASETS, PROTOCOLS

TESTED = [Shown(name, corrupted) for corrupted in (True, False) for name in DATASETS]
PANELS = dict(zip("abcdef", TESTED, strict=True))
RECIPE = Bars("sharpbalance/figure7", "resnet18", PANELS, PROTOCOLS).recipe(
    "accuracy of members and ensembles, corrupted and clean"
)
