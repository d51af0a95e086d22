"""SAM on random quadratics: moments, theorems and simulations."""

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
from tepui.theory.simulate import (
    Simulation,
    simulate_sam,
    simulate_subset_constant,
    simulate_subset_sam,
)
from tepui.theory.stability import largest_stable_eta, largest_stable_rho, stable
from tepui.theory.theorems import TradeOff, subset_constant, theorem1, theorem2

__all__ = [
    "Simulation",
    "TradeOff",
    "ascended_rise",
    "iterate_sam",
    "largest_rise",
    "largest_stable_eta",
    "largest_stable_rho",
    "marchenko_pastur_rule",
    "phi",
    "phi_exact",
    "phi_multinomial",
    "simulate_sam",
    "simulate_subset_constant",
    "simulate_subset_sam",
    "stable",
    "subset_constant",
    "theorem1",
    "theorem2",
    "unroll_sam",
]
