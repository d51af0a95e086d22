r"""Moments of SAM's iteration operator under the Marchenko–Pastur law.

For :math:`A` of shape :math:`n \times d` with entries :math:`N(0, 1/d)` and
:math:`H = A^\top A`, SAM on :math:`\tfrac12 \lVert A(\theta - \theta^*) \rVert^2`
multiplies the error by :math:`B = I - \eta H - \eta\rho H^2` in every step, and

.. math:: \varphi(i, j) = \lim_{d \to \infty} \tfrac1d E \operatorname{tr}[B^i H^j]
    = \int (1 - \eta x - \eta\rho x^2)^i x^j \, d\mu_R(x),
    \qquad R = n / d.

:math:`\mu_R` has the density :math:`\sqrt{(b-x)(x-a)} / (2\pi x)` between
:math:`a, b = (\sqrt R \mp 1)^2` and, for :math:`R < 1`, an atom :math:`1 - R` at zero.
With :math:`x = 1 + R - 2\sqrt R \cos t` the measure :math:`x\,d\mu_R` becomes
:math:`\tfrac{2R}{\pi} \sin^2 t \, dt`, whose Gauss rule (Chebyshev's second kind) is
known; dividing its weights by :math:`x` and giving zero what is left of the mass,
:math:`1 / (1 + R + \dots + R^N)`, makes a Gauss–Radau rule in closed form: positive
weights, exact for polynomials of degree :math:`2N`, without an eigenvalue problem.

The limit leaves out a term of order :math:`1/d`, which Bai and Silverstein computed:

.. math:: \frac1d \Bigl[ \frac{f(a) + f(b)}4
    - \frac1{2\pi} \int_0^\pi f(x(t)) \, dt \Bigr],
    \qquad f(x) = (1 - \eta x - \eta\rho x^2)^i x^j.

On the same nodes the trapezoidal rule gives it exactly.

Differs from the paper: it prints :math:`\varphi` as a multinomial sum over Narayana
numbers with alternating signs (:func:`phi_multinomial`), which loses all digits in
float64, and its notebook takes absolute values, which hides wrong signs.

References:
    Lu et al., Sharpness-diversity tradeoff: improving flat ensembles with SharpBalance,
    NeurIPS 2024. Golub and Meurant, Matrices, moments and quadrature, 2010. Bai and
    Silverstein, CLT for linear spectral statistics of large-dimensional sample
    covariance matrices, 2004.
"""

import operator
from fractions import Fraction
from itertools import accumulate
from math import comb, inf, isfinite

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tepui.core.checks import require
from tepui.core.warning import warn

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

DIVERGENT = (
    "eta and rho lie in the divergent regime, where |1 - eta x - eta rho x^2| > 1 on "
    "the spectrum (see tepui.theory.stable)"
)
CANCELING = "terms of the printed sum overflow, however small the moment (see phi)"


def phi(
    i: ArrayLike,
    j: ArrayLike,
    *,
    eta: ArrayLike,
    rho: ArrayLike,
    ratio: float,
    d: int | None = None,
) -> FloatArray:
    r"""Return :math:`\varphi(i, j)`, the moment of :math:`B^i H^j`.

    Args:
        i: Power of the iteration operator, an integer or an array of them.
        j: Power of the Gram matrix, likewise.
        eta: Step size, a number or an array.
        rho: SAM's perturbation radius, likewise.
        ratio: Rows per column of the data, n / d.
        d: Columns of the data, to add the correction of order 1/d; None is the limit.

    Returns:
        The moments, in the common shape of ``i``, ``j``, ``eta`` and ``rho``; infinite,
        with a warning, beyond the range of floats.

    Example:
        >>> phi(0, [1, 2], eta=0.1, rho=0.2, ratio=2.0).round(12)  # R, R + R²
        array([2., 6.])
    """
    log, sign = log_phi(i, j, eta=eta, rho=rho, ratio=ratio, d=d)
    with np.errstate(over="ignore"):
        values = sign * np.exp(log)
    if np.isinf(values).any():
        warn_beyond_range("phi")
    return values


def log_phi(
    i: ArrayLike,
    j: ArrayLike,
    *,
    eta: ArrayLike,
    rho: ArrayLike,
    ratio: float,
    d: int | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the logarithm of the moment's absolute value, and its sign.

    Never overflows. Arguments as in :func:`phi`.
    """
    power = non_negative_integers("i", i)[..., None]
    degree = non_negative_integers("j", j)[..., None]
    step, radius = non_negative("eta", eta), non_negative("rho", rho)
    count = int(power.max() + (degree.max() + 1) // 2)
    nodes, weights = marchenko_pastur_rule(ratio, count, d)
    factor = 1 - step[..., None] * nodes * (1 + radius[..., None] * nodes)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.abs(weights)) + _log_power(nodes, degree)
        logs = logs + _log_power(factor, power)
        largest = logs.max(-1, keepdims=True)
        signs = np.where(power % 2 == 1, np.sign(factor), 1.0) * np.sign(weights)
        total = (signs * np.exp(logs - largest)).sum(-1)
        total = np.where(np.isneginf(largest[..., 0]), 0.0, total)
        return largest[..., 0] + np.log(np.abs(total)), np.sign(total)


def marchenko_pastur_rule(
    ratio: float, num_nodes: int, d: int | None = None
) -> tuple[FloatArray, FloatArray]:
    r"""Return nodes and weights that integrate polynomials against :math:`\mu_R`.

    Args:
        ratio: Rows per column, R.
        num_nodes: Nodes N inside the bulk; zero and the two edges come on top.
        d: Columns of the data, to add the correction of order 1/d; None is the limit.

    Returns:
        Nodes and weights of shape ``(num_nodes + 3,)``, exact up to degree
        ``2 * num_nodes``. In the limit no weight is negative and the edges have none.

    Example:
        >>> nodes, weights = marchenko_pastur_rule(2.0, 3)
        >>> round(float(weights @ nodes**3), 12)  # R + 3R² + R³
        22.0
        >>> _, weights = marchenko_pastur_rule(2.0, 3, d=10)
        >>> round(float(weights @ nodes**2), 12)  # R + R² + R/d
        6.2
    """
    positive("ratio", ratio)
    integer_from(0, "num_nodes", num_nodes)
    if d is not None:
        integer_from(1, "d", d)
    parts = num_nodes + 1
    angles = np.arange(parts + 1) * (np.pi / parts)
    # (1 - √R)² + 4√R sin²(t/2) is 1 + R - 2√R cos(t) without cancellation.
    root = np.sqrt(ratio)
    bulk = (1 - root) ** 2 + 4 * root * np.sin(angles / 2) ** 2
    weights = np.zeros(parts + 1)
    inner = slice(1, -1)
    weights[inner] = 2 * ratio / parts * np.sin(angles[inner]) ** 2 / bulk[inner]
    if d is not None:
        weights -= 1 / (2 * d * parts)
        weights[[0, -1]] = (1 - 1 / parts) / (4 * d)
    return np.append(0.0, bulk), np.append(_mass_at_zero(ratio, num_nodes), weights)


def phi_exact(i: int, j: int, *, eta: float, rho: float, ratio: float) -> Fraction:
    """Return the moment in rational arithmetic.

    Args:
        i: Power of the iteration operator.
        j: Power of the Gram matrix.
        eta: Step size, taken as the fraction that the float is.
        rho: SAM's perturbation radius, likewise.
        ratio: Rows per column of the data, likewise.

    Returns:
        The exact value.

    Example:
        >>> phi_exact(1, 0, eta=Fraction(1, 10), rho=Fraction(1, 2), ratio=Fraction(2))
        Fraction(1, 2)
    """
    _check_scalars(i, j, eta, rho, ratio)
    step, radius, R = (Fraction(value) for value in (eta, rho, ratio))
    # Coefficients of (1 + c x + s x²)^i by Miller's recurrence.
    linear, square = -step, -step * radius
    coefficients = [Fraction(0), Fraction(1)]
    for power in range(1, 2 * i + 1):
        first = (i - power + 1) * linear * coefficients[-1]
        second = (2 * i - power + 2) * square * coefficients[-2]
        coefficients.append((first + second) / power)
    powers = enumerate(coefficients[1:], start=j)
    terms = (coefficient * moment_exact(power, R) for power, coefficient in powers)
    return sum(terms, Fraction(0))


def moment_exact(power: int, ratio: Fraction) -> Fraction:
    r"""Return :math:`\int x^m d\mu_R = \sum_l N_{m,l} R^l` exactly."""
    if power == 0:
        return Fraction(1)
    powers = accumulate([ratio] * power, operator.mul)
    terms = (_narayana(power, length + 1) * r for length, r in enumerate(powers))
    return sum(terms, Fraction(0))


def phi_multinomial(i: int, j: int, *, eta: float, rho: float, ratio: float) -> float:
    """Return the moment by the sum that the paper prints, in float64.

    Kept to compare with; rounding ruins it long before ``i`` grows large.

    Args:
        i: Power of the iteration operator.
        j: Power of the Gram matrix.
        eta: Step size.
        rho: SAM's perturbation radius.
        ratio: Rows per column of the data.

    Returns:
        What float64 makes of the sum; infinite, with a warning, where a term is beyond
        the range of floats.

    Raises:
        ValueError: If an argument breaks its rule, or Narayana numbers exceed the range
            of floats.

    Example:
        >>> phi_multinomial(1, 0, eta=0.1, rho=0.5, ratio=2.0)
        0.5
    """
    _check_scalars(i, j, eta, rho, ratio)
    require(2 * i + j <= 500, "2 * i + j", "be at most 500", 2 * i + j)
    try:
        total = _printed_sum(i, j, float(eta), float(rho), float(ratio))
    except OverflowError:
        total = inf
    if not isfinite(total):
        warn_beyond_range("phi_multinomial", CANCELING)
        return inf
    return total


def _printed_sum(i: int, j: int, eta: float, rho: float, ratio: float) -> float:
    total = 1.0 if j == 0 else 0.0
    for k3 in range(i + 1):
        for k2 in range(i + 1 - k3):
            m = k2 + 2 * k3 + j
            ways = comb(i, k2) * comb(i - k2, k3)
            inner = 0.0
            for length in range(1, m + 1):
                inner += (1 / ratio) ** (m - length) * _narayana(m, length)
            total += ways * (-eta) ** (k2 + k3) * rho**k3 * ratio**m * inner
    return total


def non_negative(argument: str, values: ArrayLike) -> FloatArray:
    """Return values as floats, or raise naming the first that is negative or NaN."""
    array = np.asarray(values, dtype=np.float64)
    good = np.isfinite(array) & (array >= 0)
    if not good.all():
        require(False, argument, "be non-negative and finite", float(array[~good][0]))
    return array


def positive(argument: str, value: float) -> None:
    """Raise a ``ValueError`` unless a number is positive and finite."""
    require(isfinite(value) and value > 0, argument, "be positive and finite", value)


def integer_from(least: int, argument: str, value: int) -> None:
    """Raise a ``ValueError`` unless a number is an integer and large enough."""
    good = isinstance(value, int | np.integer) and value >= least
    require(good, argument, f"be an integer of at least {least}", value)


def non_negative_integers(argument: str, values: ArrayLike) -> IntArray:
    """Return values as integers, or raise naming the first that breaks the rule."""
    array = np.asarray(values)
    good = np.isfinite(array) & (array >= 0) & (array == np.floor(array))
    good &= array < 2**53
    if not good.all():
        require(False, argument, "be a non-negative integer", array[~good][0].item())
    return array.astype(np.int64)


def warn_beyond_range(what: str, cause: str = DIVERGENT) -> None:
    """Warn that a result is infinite, and where such results come from."""
    warn(
        f"{what} is beyond the range of floats and comes back as inf: {cause}",
        RuntimeWarning,
    )


def _check_scalars(i: int, j: int, eta: float, rho: float, ratio: float) -> None:
    integer_from(0, "i", i)
    integer_from(0, "j", j)
    non_negative("eta", eta)
    non_negative("rho", rho)
    positive("ratio", ratio)


def _log_power(base: FloatArray, power: IntArray) -> FloatArray:
    """Return power * log|base|, with 0⁰ = 1."""
    return np.where(power == 0, 0.0, power * np.log(np.abs(base)))


def _mass_at_zero(ratio: float, count: int) -> float:
    """Return 1 / (1 + R + ... + R^N)."""
    if ratio > 1:
        return _mass_at_zero(1 / ratio, count) * ratio ** (-count)
    return float(1 / np.polyval(np.ones(count + 1), ratio))


def _narayana(m: int, length: int) -> int:
    return comb(m - 1, length - 1) * comb(m, length - 1) // length
