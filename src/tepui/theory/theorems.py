r"""Diversity and sharpness of SAM on random quadratics, in closed form.

Members start at :math:`\theta_0` with mean zero and covariance :math:`\sigma^2 I` and
take k steps of unnormalized SAM on :math:`\tfrac12\lVert A(\theta-\theta^*)\rVert^2`.
Diversity is the variance of their predictions on unseen rows; sharpness the largest
rise of the loss within :math:`\rho_0` of their mean. With :math:`R = n / d`:

Theorem 1, all members trained on all rows:

.. math:: D = \varphi(2k, 0) \sigma^2, \qquad
    \tfrac{\rho_0^2}{2} (\sqrt R - 1)_+^2 + L - G \le \kappa
    \le \tfrac{\rho_0^2}{2} (\sqrt R + 1)^2 + L, \qquad
    L = \rho_0 \sqrt{\varphi(2k, 2)} \lVert\theta^*\rVert.

Theorem 2, each trained on one of S blocks of rows, with :math:`\varphi'` at the ratio
:math:`r = R / S`:

.. math:: D = \varphi'(2k, 0) \sigma^2 + \tfrac{S-1}{dS}
    \left(\varphi'(2k, 0) - \varphi'(k, 0)^2\right) \lVert\theta^*\rVert^2, \qquad
    \kappa \le \tfrac{\rho_0^2}{2} (\sqrt R + 1)^2
    + \tfrac{\rho_0}{S} \sqrt C \lVert\theta^*\rVert.

Differs from the paper: :math:`G` carries :math:`\rho_0` and the power of
:math:`\lVert\theta^*\rVert` that dimensions ask for, :math:`C` counts its terms right,
and no absolute values are taken. The printed forms are options.

References:
    Lu et al., Sharpness-diversity tradeoff: improving flat ensembles with SharpBalance,
    NeurIPS 2024, Theorems 1 and 2.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from tepui.core.checks import one_of
from tepui.theory.moments import (
    FloatArray,
    IntArray,
    integer_from,
    log_phi,
    non_negative_integers,
    phi,
    positive,
    warn_beyond_range,
)
from tepui.theory.setting import Setting, check_subsets, largest_stable_eta, upper_edge

Gap = Literal["haar", "cauchy_schwarz", "notebook", "paper"]
Constant = Literal["corrected", "printed"]


@dataclass(frozen=True)
class TradeOff:
    """What a theorem says about diversity and sharpness.

    Attributes:
        diversity: Variance of the members' predictions.
        sharpness_upper: Upper bound of the sharpness.
        sharpness_lower: Lower bound of the sharpness; NaN where a theorem has none.
    """

    diversity: FloatArray
    sharpness_upper: FloatArray
    sharpness_lower: FloatArray


def theorem1(
    setting: Setting,
    k: ArrayLike,
    *,
    eta: ArrayLike,
    rho: ArrayLike,
    gap: Gap = "haar",
    finite_size: bool = False,
) -> TradeOff:
    """Return diversity and bounds of sharpness of SAM on all data.

    Args:
        setting: Data, initial weights and the radius of sharpness.
        k: Steps, an integer or an array.
        eta: Step size, a number or an array.
        rho: SAM's perturbation radius, likewise.
        gap: What the lower bound subtracts for Jensen's inequality: ``"haar"`` uses
            that the data have no preferred direction; ``"cauchy_schwarz"`` does not;
            ``"notebook"`` and ``"paper"`` are the released and the printed form.
        finite_size: Add the corrections of order 1/d to all moments.

    Returns:
        The common shape of ``k``, ``eta`` and ``rho``; NaN where d is so small that a
        correction exceeds its moment.

    Example:
        >>> setting = Setting(rho0=0.1, n=40, d=20, sigma2=0.5, theta_norm=1.0)
        >>> float(theorem1(setting, 0, eta=0.1, rho=0.1).diversity)
        0.5
    """
    one_of("gap", gap, get_args(Gap))
    steps, ratio = non_negative_integers("k", k), setting.ratio
    size = setting.d if finite_size else None
    moment = partial(log_phi, eta=eta, rho=rho, ratio=ratio, d=size)
    log_zeroth = _positive(moment(2 * steps, 0))
    log_second = _positive(moment(2 * steps, 2))
    log_fourth = _positive(moment(4 * steps, 4))
    with np.errstate(over="ignore"):
        slope = np.exp(log_second / 2)
        spread = np.expm1(log_fourth - 2 * log_second)
        # Multiplied out, this would be inf - inf beyond the range of floats.
        below = slope * (setting.steepness - spread * _gap(gap, setting))
    if np.isinf(slope).any():
        warn_beyond_range("sharpness_upper")
    curvature, lower_edge = setting.rho0**2 / 2, max(np.sqrt(ratio) - 1, 0.0) ** 2
    return TradeOff(
        _diversity(log_zeroth, np.asarray(setting.sigma2)),
        curvature * upper_edge(ratio) + setting.steepness * slope,
        curvature * lower_edge + below,
    )


def theorem2(
    setting: Setting,
    k: ArrayLike,
    *,
    eta: ArrayLike,
    rho: ArrayLike,
    subsets: int,
    constant: Constant = "corrected",
    finite_size: bool = False,
) -> TradeOff:
    """Return diversity and a bound of sharpness of SAM on one of S blocks of data.

    Args:
        setting: Data, initial weights and the radius of sharpness.
        k: Steps, an integer or an array.
        eta: Step size, a number or an array.
        rho: SAM's perturbation radius, likewise.
        subsets: Blocks of rows, S; with one this is Theorem 1.
        constant: ``"corrected"``, or C as the paper prints it.
        finite_size: Add the corrections of order 1/d to all moments. In C one term,
            where two blocks cross, keeps its limit, a bias that many repetitions see.
            At the very edge of stability order 1/d is not enough (research/theory.md).

    Returns:
        The common shape of ``k``, ``eta`` and ``rho``; the lower bound is NaN.

    Example:
        >>> setting = Setting(rho0=0.1, n=40, d=20, sigma2=0.5, theta_norm=1.0)
        >>> float(theorem2(setting, 0, eta=0.1, rho=0.1, subsets=4).diversity)
        0.5
    """
    steps = non_negative_integers("k", k)
    check_subsets(subsets, setting.n)
    size, ratio = setting.d if finite_size else None, setting.ratio / subsets
    log_scale, scaled, mean = _scaled_constant(
        steps, eta, rho, ratio, subsets, constant, size
    )
    with np.errstate(over="ignore"):
        slope = np.exp(log_scale / 2) * np.sqrt(scaled) / subsets
    if np.isinf(slope).any():
        warn_beyond_range("sharpness_upper")
    # A variance, which rounding may make negative.
    between = np.maximum(1 - mean**2, 0.0) * (1 - 1 / subsets) / setting.d
    diversity = _diversity(log_scale, setting.sigma2 + between * setting.theta_norm**2)
    upper = setting.rho0**2 / 2 * upper_edge(setting.ratio) + setting.steepness * slope
    return TradeOff(diversity, upper, np.full_like(upper, np.nan))


def subset_constant(
    k: ArrayLike,
    *,
    eta: ArrayLike,
    rho: ArrayLike,
    ratio: float,
    subsets: int,
    constant: Constant = "corrected",
    d: int | None = None,
) -> FloatArray:
    r"""Return C of Theorem 2, the limit of E tr[(Σ Bₛᵏ)(Σ Hₛ)²(Σ Bₛᵏ)] / d.

    Args:
        k: Steps, an integer or an array.
        eta: Step size, a number or an array.
        rho: SAM's perturbation radius, likewise.
        ratio: Rows per column of all data, n / d.
        subsets: Blocks of rows, S.
        constant: ``"corrected"``, or as the paper prints it.
        d: Columns of the data, to correct the moments of single blocks to order 1/d;
            the term where two blocks cross keeps its limit.

    Returns:
        The common shape of ``k``, ``eta`` and ``rho``.

    Example:
        >>> options = dict(eta=0.01, rho=0.1, ratio=20.0, subsets=3)
        >>> float(subset_constant(0, **options).round(6))  # S² (R² + R)
        3780.0
        >>> float(subset_constant(0, constant="printed", **options).round(6))
        3800.0
    """
    steps = non_negative_integers("k", k)
    positive("ratio", ratio)
    integer_from(1, "subsets", subsets)
    log_scale, scaled, _ = _scaled_constant(
        steps, eta, rho, ratio / subsets, subsets, constant, d
    )
    with np.errstate(over="ignore"):
        values = np.exp(log_scale) * scaled
    if np.isinf(values).any():
        warn_beyond_range("C")
    return values


def _gap(gap: Gap, setting: Setting) -> float:
    """Return what multiplies (φ(4k,4) - φ(2k,2)²) / φ(2k,2)^1.5 in G.

    Jensen's gap of a square root is at most half the relative variance of
    Z = θ*' B²ᵏ H² θ*; for θ* in uniformly random direction that variance is
    2 (φ(4k,4) / φ(2k,2)² - 1) / (d + 2).
    """
    return {
        "haar": setting.steepness / (setting.d + 2),
        "cauchy_schwarz": setting.steepness / 2,
        "notebook": setting.rho0 / (2 * setting.theta_norm),
        "paper": 1 / (2 * setting.theta_norm),
    }[gap]


def _diversity(log_moment: FloatArray, variance: FloatArray) -> FloatArray:
    """Return moment times variance, zero where the latter is, however large it gets."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.where(variance == 0, 0.0, np.exp(log_moment) * variance)
    if np.isinf(values).any():
        warn_beyond_range("diversity")
    return values


def _positive(log_and_sign: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Return the logarithm of a moment that must be positive, else NaN."""
    log, sign = log_and_sign
    return np.where(sign >= 0, log, np.nan)


def _scaled_constant(
    steps: IntArray,
    eta: ArrayLike,
    rho: ArrayLike,
    r: float,
    S: int,
    constant: Constant,
    d: int | None,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log φ'(2k,0), C / φ'(2k,0) and φ'(k,0) / √φ'(2k,0).

    Scaled so, nothing overflows: φ'(k,0)² never exceeds φ'(2k,0).
    """
    one_of("constant", constant, get_args(Constant))
    log_moment = partial(log_phi, eta=eta, rho=rho, ratio=r, d=d)
    log_scale = _positive(log_moment(2 * steps, 0))

    def moment(power: int, j: int) -> FloatArray:
        log, sign = log_moment(power * steps, j)
        return sign * np.exp(log - power / 2 * log_scale)

    z, y, x = moment(1, 0), moment(1, 1), moment(1, 2)
    c, b, a = moment(2, 0), moment(2, 1), moment(2, 2)
    square = phi(0, 2, eta=0.0, rho=0.0, ratio=r, d=d)  # E H² = r + r² (+ r / d)
    pairs, triples = S * (S - 1), S * (S - 1) * (S - 2)
    shared = S * a + 2 * r * pairs * b + 2 * pairs * x * z + square * pairs * c
    shared = shared + r**2 * triples * (S - 3) * z**2
    if constant == "printed":
        rest = 2 * pairs * y**2 + triples * (
            1.5 * square * z**2 + 1.5 * r**2 * c + 3 * r * z * y
        )
    else:
        rest = pairs * (y**2 + 2 * r * z * y - r**2 * z**2) + triples * (
            square * z**2 + r**2 * c + 4 * r * z * y
        )
    return log_scale, shared + rest, z


SWEEP = 400


def eta_at_sharpness(
    setting: Setting, sharpness: ArrayLike, k: int, *, rho: float, subsets: int = 1
) -> FloatArray:
    """Return the smallest stable step size at which SAM's bound has a given sharpness.

    The published comparison sets members trained on all data, in the divergent regime,
    against members trained on blocks in the stable one. Here both are stable and
    equally sharp, so that diversities can be compared. From zero the bound falls with
    the step size, since less is left of the initial error; the smallest step size with
    the wanted value is taken.

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
