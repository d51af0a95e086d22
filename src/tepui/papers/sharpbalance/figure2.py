"""Figure 2: Theorem 1 beside simulation, as published and where SAM is stable.

Measured at small size (n = 50; x86_64, torch 2.11.0+cu130): diversity on
random_quadratic: source=theory 14.3, source=simulation 14.76 ± 0.11.
"""

import numpy as np

from tepui.papers.sharpbalance import theory_curves
from tepui.papers.sharpbalance.theory_curves import ETA, Lettered, Resolution
from tepui.report.trade_offs import Panel
from tepui.theory import largest_stable_rho


def panels(resolution: Resolution) -> Lettered:
    """Return the published radii, stable ones, and both methods equally sharp."""
    limit = float(largest_stable_rho(ETA, resolution.setting.ratio))
    ends = ((0.5, 0.3), (limit, 0.0))
    points = [(3, ETA, np.linspace(*pair, resolution.points)) for pair in ends]
    published, stable = theory_curves.curves_at("SAM", points, resolution)
    shown = [
        Panel("as published, k = 3, rho 0.5 to 0.3", (published,)),
        Panel(f"stable, k = 3, rho {limit:.2f} to 0", (stable,)),
        *theory_curves.matched([3], resolution),
    ]
    return [("", panel) for panel in shown]


RECIPE = theory_curves.theory_recipe(
    "sharpbalance/figure2", "Theorem 1 beside simulation", panels
)
