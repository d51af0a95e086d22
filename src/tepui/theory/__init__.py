"""SAM on random quadratics, and a step beyond: moments, theorems, simulations.

Every function raises a ``ValueError`` that names argument, rule and value where an
argument breaks its rule.
"""

from tepui.theory.agreement import Agreement, agreement
from tepui.theory.beyond_quadratics import simulate_losses
from tepui.theory.moments import (
    marchenko_pastur_rule,
    phi,
    phi_exact,
    phi_multinomial,
)
from tepui.theory.quadratic import (
    ascended_rise,
    iterate_sam,
    largest_rise,
    unroll_sam,
)
from tepui.theory.setting import Setting, largest_stable_eta, largest_stable_rho, stable
from tepui.theory.simulate import Simulation, simulate_sam, simulate_subset_constant
from tepui.theory.theorems import (
    TradeOff,
    eta_at_sharpness,
    subset_constant,
    theorem1,
    theorem2,
)

__all__ = [
    "Agreement",
    "Setting",
    "Simulation",
    "TradeOff",
    "agreement",
    "ascended_rise",
    "eta_at_sharpness",
    "iterate_sam",
    "largest_rise",
    "largest_stable_eta",
    "largest_stable_rho",
    "marchenko_pastur_rule",
    "phi",
    "phi_exact",
    "phi_multinomial",
    "simulate_losses",
    "simulate_sam",
    "simulate_subset_constant",
    "stable",
    "subset_constant",
    "theorem1",
    "theorem2",
    "unroll_sam",
]
