"""Figure 10: Theorem 1 beside simulation, over steps and step sizes.

Measured at small size (n = 50; aarch64, torch 2.13.0+cpu): diversity on
random_quadratic: source=theory 5.685e+04, source=simulation 5.758e+04 ± 1.7e+02.
"""

from functools import partial

from tepui.papers.sharpbalance.theory_curves import by_steps, theory_recipe

panels = partial(by_steps, "SAM", (2, 4, 8), (0.1, 0.05, 0.01))
RECIPE = theory_recipe(
    "sharpbalance/figure10",
    "Theorem 1 beside simulation, over steps and step sizes",
    panels,
    letters="abcdefghi",
    logarithmic=True,
)
