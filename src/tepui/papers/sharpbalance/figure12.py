"""Figure 12: the trade-off by other measures of sharpness and diversity.

Measured at small size, with stand-ins (n = 8; aarch64, torch 2.13.0+cpu): beta on
cifar10: sam_rho_sweep 1.578.

Panels a and d take the worst case within a cube, b and e the average case, c and f the
KL divergence; all axes are logarithmic. The paper's text does not say in what its two
rows differ: here a to c are colored by what ensembles gain and d to f by the members'
accuracy, as in figure 4.
"""

from itertools import product

from tepui.papers.sharpbalance.radius_sweep import Axes, Swept, sweep_recipe

COLORS = ("eir", "individual_accuracy")
PAIRS = (("worst_case_linf", "der"), ("average_case", "der"), ("worst_case", "kl"))
RECIPE = sweep_recipe(
    "sharpbalance/figure12",
    "the trade-off by other measures of sharpness and diversity",
    {
        letter: Swept("cifar10", (Axes(*pair, color),))
        for letter, (color, pair) in zip("abcdef", product(COLORS, PAIRS), strict=True)
    },
)
