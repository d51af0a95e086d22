"""SAM tuned to a given sharpness, so that diversities can be compared.

The published comparison sets members trained on all data, in the divergent regime,
against members trained on blocks in the stable one. Here both are stable and equally
sharp: for a fixed perturbation radius the step size is chosen so that the bound of the
sharpness has the wanted value. From zero the bound falls with the step size, since less
is left of the initial error; the smallest such step size is taken.
"""

import numpy as np
from numpy.typing import ArrayLike

from tepui.theory.moments import FloatArray
from tepui.theory.setting import Setting, check_subsets
from tepui.theory.stability import largest_stable_eta
from tepui.theory.theorems import theorem2

SWEEP = 400


def eta_at_sharpness(
    setting: Setting, sharpness: ArrayLike, k: int, *, rho: float, subsets: int = 1
) -> FloatArray:
    """Return the smallest stable step size at which SAM's bound has a given sharpness.

    Args:
        setting: Data, initial weights and the radius of sharpness.
        sharpness: Wanted values of the upper bound, a number or an array.
        k: Steps.
        rho: SAM's perturbation radius.
        subsets: Blocks of rows, each member trained on one; one is all data.

    Returns:
        The shape of ``sharpness``; NaN where no stable step size reaches it.

    Example:
        >>> setting = Setting(rho0=0.01, n=40, d=20, sigma2=0.1, theta_norm=1.0)
        >>> eta = eta_at_sharpness(setting, 0.01, 3, rho=0.1)
        >>> trained = theorem2(setting, 3, eta=eta, rho=0.1, subsets=1)
        >>> float(trained.sharpness_upper.round(9))
        0.01
    """
    from scipy.optimize import brentq

    check_subsets(subsets, setting.n)

    def bound(eta: ArrayLike) -> FloatArray:
        return theorem2(setting, k, eta=eta, rho=rho, subsets=subsets).sharpness_upper

    largest = float(largest_stable_eta(rho, setting.ratio / subsets))
    etas = np.linspace(0.0, largest, SWEEP)
    swept = bound(etas)

    def solve(wanted: float) -> float:
        under = np.flatnonzero(swept <= wanted)
        if len(under) == 0 or under[0] == 0:
            return float("nan")

        def excess(eta: float) -> float:
            return float(bound(eta)) - wanted

        low, high = etas[under[0] - 1], etas[under[0]]
        return float(brentq(excess, low, high, xtol=1e-16, rtol=1e-12))

    wanted = np.asarray(sharpness, dtype=np.float64)
    return np.array([solve(value) for value in wanted.flat]).reshape(wanted.shape)
