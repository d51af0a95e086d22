"""Figure 7: accuracy of members and ensembles, in distribution and corrupted.

Panels a to c are the corrupted copies of CIFAR-10, CIFAR-100 and TinyImageNet, d to f
their clean test sets.
"""

from tepui.papers.sharpbalance.bars import Bars, Panel
from tepui.papers.sharpbalance.protocol import DATASETS, SCALES

PANELS = {
    **{letter: Panel(name, True) for letter, name in zip("abc", DATASETS, strict=True)},
    **{
        letter: Panel(name, False) for letter, name in zip("def", DATASETS, strict=True)
    },
}
RECIPE = Bars("sharpbalance/figure7", "resnet18", PANELS, SCALES).recipe(
    "accuracy of members and ensembles, corrupted and clean"
)
