"""Figure 9: Theorem 2 beside simulation, over radii (a) and over steps (b)."""

import numpy as np

from tepui.papers.sharpbalance.theory_curves import (
    ETA,
    SEED,
    Lettered,
    Scale,
    curve_at,
    matched,
    theory_recipe,
)
from tepui.report.trade_offs import Panel


def panels(scale: Scale) -> Lettered:
    """Return both panels, and both methods equally sharp."""
    radii, steps = np.linspace(1.0, 0.4, scale.points), np.arange(1, 16)
    k = np.append(np.full(scale.points, 5), steps)
    rho = np.append(radii, np.full(len(steps), 0.4))
    curve = curve_at("SharpBalance", k, ETA, rho, scale, SEED)
    first, rest = slice(scale.points), slice(scale.points, None)
    (ours,) = matched([5], scale)
    return [
        ("a", Panel("(a) k = 5, rho 1 to 0.4", (curve.part(first),))),
        ("b", Panel("(b) rho = 0.4, k 1 to 15", (curve.part(rest),))),
        ("", ours),
    ]


RECIPE = theory_recipe(
    "sharpbalance/figure9", "Theorem 2 beside simulation", panels, letters="ab"
)
