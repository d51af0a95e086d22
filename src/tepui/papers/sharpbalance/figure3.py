"""Figure 3: three measures of diversity against sharpness, over SAM's radius.

Measured at small size, with stand-ins (n = 8; aarch64, torch 2.13.0+cpu): beta on
cifar10: diversity=der -0.1044, diversity=kl -0.1292, diversity=variance 0.3138.

ResNet-18 on CIFAR-10; diversity on its corrupted copies.
"""

from tepui.papers.sharpbalance.radius_sweep import DIVERSITY, Axes, Swept, sweep_recipe

AXES = tuple(Axes(diversity=name) for name in DIVERSITY)
RECIPE = sweep_recipe(
    "sharpbalance/figure3",
    "diversity by three measures against sharpness, over SAM's radius",
    {"": Swept("cifar10", AXES)},
)
