"""Figure 2: Theorem 1 beside simulation, as published and where SAM is stable.

Measured at small size (n = 50; aarch64, torch 2.13.0+cpu): diversity on
random_quadratic: source=theory 14.3, source=simulation 14.76 ± 0.11.
"""

import numpy as np

from tepui.papers.sharpbalance.theory_curves import (
    ETA,
    SEED,
    Lettered,
    Resolution,
    curve_at,
    matched,
    theory_recipe,
)
from tepui.report.trade_offs import Panel
from tepui.theory import largest_stable_rho


def panels(resolution: Resolution) -> Lettered:
    """Return the published radii, stable ones, and both methods equally sharp."""
    published = np.linspace(0.5, 0.3, resolution.points)
    limit = float(largest_stable_rho(ETA, resolution.setting.ratio))
    within = np.linspace(limit, 0, resolution.points)
    curve = curve_at("SAM", 3, ETA, np.append(published, within), resolution, SEED)
    first = curve.part(slice(resolution.points))
    second = curve.part(slice(resolution.points, None))
    shown = [
        Panel("as published, k = 3, rho 0.5 to 0.3", (first,)),
        Panel(f"stable, k = 3, rho {limit:.2f} to 0", (second,)),
        *matched([3], resolution),
    ]
    return [("", panel) for panel in shown]


RECIPE = theory_recipe("sharpbalance/figure2", "Theorem 1 beside simulation", panels)
