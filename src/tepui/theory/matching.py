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
from tepui.theory.stability import largest_stable_eta
from tepui.theory.theorems import TradeOff, check_setting, check_subsets, theorem2

SWEEP = 400


def eta_at_sharpness(
    sharpness: ArrayLike,
    k: int,
    *,
    rho: float,
    rho0: float,
    n: int,
    d: int,
    sigma2: float,
    theta_norm: float,
    subsets: int = 1,
) -> FloatArray:
    """Return the smallest stable step size at which SAM's bound has a given sharpness.

    Args:
        sharpness: Wanted values of the upper bound, a number or an array.
        k: Steps.
        rho: SAM's perturbation radius.
        rho0: Radius within which sharpness is measured.
        n: Rows of the data.
        d: Columns of the data.
        sigma2: Variance of the initial weights.
        theta_norm: Length of the teacher.
        subsets: Blocks of rows, each member trained on one; one is all data.

    Returns:
        The shape of ``sharpness``; NaN where no stable step size reaches it.

    Raises:
        ValueError: If an argument breaks its rule.

    Example:
        >>> setting = dict(rho=0.1, rho0=0.01, n=40, d=20, sigma2=0.1, theta_norm=1.0)
        >>> eta = eta_at_sharpness(0.01, 3, **setting)
        >>> float(theorem2(3, eta=eta, subsets=1, **setting).sharpness_upper.round(9))
        0.01
    """
    from scipy.optimize import brentq

    check_setting(k, rho0, n, d, sigma2, theta_norm)
    check_subsets(subsets, n)

    def trade_off(eta: ArrayLike) -> TradeOff:
        return theorem2(
            k,
            eta=eta,
            rho=rho,
            rho0=rho0,
            n=n,
            d=d,
            sigma2=sigma2,
            theta_norm=theta_norm,
            subsets=subsets,
        )

    largest = float(largest_stable_eta(rho, n / d / subsets))
    etas = np.linspace(0.0, largest, SWEEP)
    swept = trade_off(etas).sharpness_upper

    def solve(wanted: float) -> float:
        under = np.flatnonzero(swept <= wanted)
        if len(under) == 0 or under[0] == 0:
            return float("nan")

        def excess(eta: float) -> float:
            return float(trade_off(eta).sharpness_upper) - wanted

        low, high = etas[under[0] - 1], etas[under[0]]
        return float(brentq(excess, low, high, xtol=1e-16, rtol=1e-12))

    wanted = np.asarray(sharpness, dtype=np.float64)
    return np.array([solve(value) for value in wanted.flat]).reshape(wanted.shape)
