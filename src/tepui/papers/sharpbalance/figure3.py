"""Figure 3: three measures of diversity against sharpness, over SAM's radius.

Measured at small size, with stand-ins (n = 8; x86_64, torch 2.11.0+cu130): beta on
cifar10: diversity=der 0.4858, diversity=kl 0.5857, diversity=variance 0.3972.

ResNet-18 on CIFAR-10; diversity on its corrupted copies.
"""

from tepui.papers.sharpbalance.radius_sweep import DIVERSITY, Axes, Swept, sweep_recipe

AXES = tuple(Axes(diversity=name) for name in DIVERSITY)
RECIPE = sweep_recipe(
    "sharpbalance/figure3",
    "diversity by three measures against sharpness, over SAM's radius",
    {"": Swept("cifar10", AXES)},
)
