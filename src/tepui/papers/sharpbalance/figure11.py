"""Figure 11: Theorem 2 beside simulation, over steps and step sizes."""

from tepui.papers.sharpbalance.theory_curves import (
    Lettered,
    Resolution,
    by_steps,
    theory_recipe,
)


def panels(resolution: Resolution) -> Lettered:
    """Return a row for each number of steps."""
    return by_steps("SharpBalance", (4, 8, 12), (0.5, 0.3, 0.1), resolution)


RECIPE = theory_recipe(
    "sharpbalance/figure11",
    "Theorem 2 beside simulation, over steps and step sizes",
    panels,
    letters="abcdefghi",
    logarithmic=True,
)
