"""Figure 4: diversity against sharpness on three data sets, over SAM's radius.

Measured at small size, with stand-ins (n = 8; x86_64, torch 2.11.0+cu130): beta on
cifar10: sam_rho_sweep 0.4858.

Panels a to c are CIFAR-10, CIFAR-100 and TinyImageNet. Each is drawn twice: colored by
what the ensemble gains (EIR), and by the members' accuracy on corrupted data.
"""

from tepui.papers.sharpbalance.protocol import DATASETS
from tepui.papers.sharpbalance.radius_sweep import Axes, Swept, sweep_recipe

AXES = (Axes(color="eir"), Axes(color="individual_accuracy"))
RECIPE = sweep_recipe(
    "sharpbalance/figure4",
    "diversity against sharpness on three data sets, over SAM's radius",
    {
        letter: Swept(dataset, AXES)
        for letter, dataset in zip("abc", DATASETS, strict=True)
    },
    columns=None,
)
