r"""What theorems and simulations share, and where SAM converges in it.

A step multiplies the error along an eigenvector of :math:`H` with eigenvalue :math:`x`
by :math:`1 - \eta x (1 + \rho x)`. On the bulk of the spectrum this stays within
:math:`[-1, 1]` if and only if :math:`\eta b (1 + \rho b) \le 2` at its upper edge
:math:`b = (\sqrt R + 1)^2`. Beyond that the error grows without bound: a larger
:math:`\rho` then makes members sharper *and* more diverse.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tepui.core.checks import require
from tepui.theory.moments import FloatArray, integer_from, non_negative, positive


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A random quadratic, its initial weights, and how sharpness is measured.

    Attributes:
        rho0: Radius within which sharpness is measured, on all data.
        n: Rows of the data.
        d: Columns of the data.
        sigma2: Variance of the initial weights.
        theta_norm: Length of the teacher.
    """

    rho0: float
    n: int
    d: int
    sigma2: float
    theta_norm: float

    def __post_init__(self) -> None:
        positive("rho0", self.rho0)
        integer_from(1, "n", self.n)
        integer_from(1, "d", self.d)
        non_negative("sigma2", self.sigma2)
        positive("theta_norm", self.theta_norm)

    @property
    def ratio(self) -> float:
        """Rows per column, R."""
        return self.n / self.d

    @property
    def steepness(self) -> float:
        """The length of the teacher times the radius of sharpness."""
        return self.rho0 * self.theta_norm


def check_subsets(subsets: int, n: int) -> None:
    """Raise a ``ValueError`` unless every block of rows holds at least one."""
    integer_from(1, "subsets", subsets)
    require(subsets <= n, "subsets", f"lie between 1 and n = {n}", subsets)


def stable(eta: ArrayLike, rho: ArrayLike, ratio: float) -> NDArray[np.bool_]:
    """Return whether SAM's iteration is stable on the whole bulk of the spectrum.

    Args:
        eta: Step size, a number or an array.
        rho: SAM's perturbation radius, likewise.
        ratio: Rows per column of the data, n / d.

    Returns:
        The common shape of ``eta`` and ``rho``.

    Example:
        >>> stable(0.01, [0.1, 0.3], 20.0)
        array([ True, False])
    """
    eta, rho = non_negative("eta", eta), non_negative("rho", rho)
    edge = upper_edge(ratio)
    return np.asarray(eta * edge * (1 + rho * edge) <= 2)


def largest_stable_rho(eta: ArrayLike, ratio: float) -> FloatArray:
    """Return the largest perturbation radius with which SAM is stable.

    Args:
        eta: Step size, a number or an array.
        ratio: Rows per column of the data, n / d.

    Returns:
        The shape of ``eta``; NaN where plain gradient descent diverges already.

    Example:
        >>> largest_stable_rho([0.01, 0.05, 0.1], 20.0).round(3)
        array([0.19 , 0.011,   nan])
    """
    eta = non_negative("eta", eta)
    edge = upper_edge(ratio)
    with np.errstate(divide="ignore"):
        rho = (2 / (eta * edge) - 1) / edge
    return np.where(rho >= 0, rho, np.nan)


def largest_stable_eta(rho: ArrayLike, ratio: float) -> FloatArray:
    """Return the largest step size with which SAM is stable.

    Args:
        rho: SAM's perturbation radius, a number or an array.
        ratio: Rows per column of the data, n / d.

    Returns:
        The shape of ``rho``.

    Example:
        >>> float(largest_stable_eta(0.0, 1.0))  # 2 / (largest eigenvalue)
        0.5
    """
    rho = non_negative("rho", rho)
    edge = upper_edge(ratio)
    return np.asarray(2 / (edge * (1 + rho * edge)))


def upper_edge(ratio: float) -> float:
    r"""Return :math:`(\sqrt R + 1)^2`, the largest eigenvalue of the limit."""
    positive("ratio", ratio)
    return float((np.sqrt(ratio) + 1) ** 2)
