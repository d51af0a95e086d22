"""Figure 11: Theorem 2 beside simulation, over steps and step sizes.

Measured at small size (n = 50; aarch64, torch 2.13.0+cpu): diversity on
random_quadratic: source=theory 3.13e+05, source=simulation 3.521e+05 ± 6.4e+03.
"""

from functools import partial

from tepui.papers.sharpbalance.theory_curves import by_steps, theory_recipe

panels = partial(by_steps, "SharpBalance", (4, 8, 12), (0.5, 0.3, 0.1))
RECIPE = theory_recipe(
    "sharpbalance/figure11",
    "Theorem 2 beside simulation, over steps and step sizes",
    panels,
    letters="abcdefghi",
    logarithmic=True,
)
