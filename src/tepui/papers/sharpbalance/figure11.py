"""Figure 11: Theorem 2 beside simulation, over steps and step sizes."""

from tepui.papers.sharpbalance.theory_curves import (
    Lettered,
    Scale,
    by_steps,
    theory_recipe,
)


def panels(scale: Scale) -> Lettered:
    """Return a row for each number of steps."""
    return by_steps("SharpBalance", (4, 8, 12), (0.5, 0.3, 0.1), scale)


RECIPE = theory_recipe(
    "sharpbalance/figure11",
    "Theorem 2 beside simulation, over steps and step sizes",
    panels,
    letters="abcdefghi",
    logarithmic=True,
)
