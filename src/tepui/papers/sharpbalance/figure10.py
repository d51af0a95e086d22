"""Figure 10: Theorem 1 beside simulation, over steps and step sizes."""

from tepui.papers.sharpbalance.theory_curves import (
    Lettered,
    Scale,
    by_steps,
    theory_recipe,
)


def panels(scale: Scale) -> Lettered:
    """Return a row for each number of steps."""
    return by_steps("SAM", (2, 4, 8), (0.1, 0.05, 0.01), scale)


RECIPE = theory_recipe(
    "sharpbalance/figure10",
    "Theorem 1 beside simulation, over steps and step sizes",
    panels,
    letters="abcdefghi",
    logarithmic=True,
)
