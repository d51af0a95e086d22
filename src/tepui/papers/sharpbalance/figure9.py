"""Figure 9: Theorem 2 beside simulation, over radii (a) and over steps (b).

Measured at small size (n = 50; aarch64, torch 2.13.0+cpu): diversity on
random_quadratic: source=theory 0.06292, source=simulation 0.06299 ± 4.3e-05.
"""

import numpy as np

from tepui.papers.sharpbalance import theory_curves
from tepui.papers.sharpbalance.theory_curves import ETA, Lettered, Place, Resolution
from tepui.report.trade_offs import Panel


def panels(resolution: Resolution) -> Lettered:
    """Return both panels, and both methods equally sharp."""
    radii, steps = np.linspace(1.0, 0.4, resolution.points), np.arange(1, 16)
    points: list[Place] = [(5, ETA, radii), (steps, ETA, 0.4)]
    first, second = theory_curves.curves_at("SharpBalance", points, resolution)
    (ours,) = theory_curves.matched([5], resolution)
    return [
        ("a", Panel("(a) k = 5, rho 1 to 0.4", (first,))),
        ("b", Panel("(b) rho = 0.4, k 1 to 15", (second,))),
        ("", ours),
    ]


RECIPE = theory_curves.theory_recipe(
    "sharpbalance/figure9", "Theorem 2 beside simulation", panels, letters="ab"
)
