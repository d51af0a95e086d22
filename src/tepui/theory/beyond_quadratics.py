r"""SAM beyond Gaussian quadratics: logistic loss, and data with heavy tails.

The same members as in :func:`~tepui.theory.simulate_sam` without blocks: some steps of
unnormalized SAM on all rows, from random weights. Losses are sums over rows,
:math:`\tfrac12 (x^\top\theta - x^\top\theta^*)^2` or
:math:`\log(1 + e^{-y x^\top\theta})` with :math:`y = \operatorname{sign}
x^\top\theta^*`. Entries of the data are Gaussian, or Student's with few degrees of
freedom, of variance 1/d either way.

Diversity is the variance of the members' outputs on unseen rows, which is exact given
the members; sharpness is the largest rise of the loss near their mean. For a convex
loss the maximizer lies on the sphere, and :math:`e \leftarrow \rho_0 \nabla f(\theta +
e) / \lVert \nabla f(\theta + e) \rVert` never lowers it.
"""

import math
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike

from tepui.core.checks import one_of, require
from tepui.core.seeding import generator
from tepui.theory.moments import (
    FloatArray,
    integer_from,
    non_negative,
    non_negative_integers,
)
from tepui.theory.setting import Setting
from tepui.theory.simulate import Simulation, mean_and_error

Loss = Literal["quadratic", "logistic"]
ASCENTS = 30
# Outputs of all rows and members, and the teacher's: losses of rows, and slopes.
RowLoss = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]


def simulate_losses(
    setting: Setting,
    k: int,
    *,
    eta: float,
    rho: ArrayLike,
    loss: Loss = "quadratic",
    freedom: float | None = None,
    matrices: int = 50,
    initializations: int = 30,
    seed: int = 0,
) -> Simulation:
    """Simulate members trained by SAM with a loss, on data with some tails.

    Args:
        setting: Data, initial weights and the radius of sharpness.
        k: Steps.
        eta: Step size.
        rho: SAM's perturbation radius, a number or a vector.
        loss: ``"quadratic"`` or ``"logistic"``.
        freedom: Degrees of freedom of the data's entries, above two; None for Gaussian
            ones.
        matrices: Repetitions, which all radii share.
        initializations: Members per repetition.
        seed: What all draws derive from.

    Returns:
        The shape of ``rho``.

    Raises:
        ValueError: If an argument breaks its rule.

    Example:
        >>> setting = Setting(rho0=0.1, n=40, d=20, sigma2=0.5, theta_norm=1.0)
        >>> seen = simulate_losses(setting, 3, eta=0.1, rho=[0.0, 0.1], matrices=2)
        >>> seen.diversity.shape
        (2,)
    """
    one_of("loss", loss, get_args(Loss))
    heavy = freedom is None or freedom > 2
    require(heavy, "freedom", "be above two, or None", freedom)
    integer_from(2, "matrices", matrices)
    integer_from(2, "initializations", initializations)
    steps, radii = int(non_negative_integers("k", k)), non_negative("rho", rho)
    non_negative("eta", eta)
    of_rows = _quadratic if loss == "quadratic" else _logistic
    shape = (*np.shape(radii), matrices)
    diversity, sharpness = np.empty(shape), np.empty(shape)
    for index in range(matrices):
        data, teacher, starts = _drawn(setting, index, seed, initializations, freedom)
        target = data @ teacher
        for place, radius in np.ndenumerate(radii):
            members = _trained(data, target, starts, steps, eta, radius, of_rows)
            variance = members.var(0, ddof=1).sum() / setting.d
            diversity[(*place, index)] = variance
            rise = _largest_rise(data, target, members.mean(0), setting.rho0, of_rows)
            sharpness[(*place, index)] = rise
    return Simulation(*mean_and_error(diversity), *mean_and_error(sharpness))


def _quadratic(
    outputs: FloatArray, target: FloatArray
) -> tuple[FloatArray, FloatArray]:
    return (outputs - target) ** 2 / 2, outputs - target


def _logistic(outputs: FloatArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
    labels = np.sign(target)
    margins = labels * outputs
    return np.logaddexp(0, -margins), -labels * np.exp(-np.logaddexp(0, margins))


def _drawn(
    setting: Setting, index: int, seed: int, members: int, freedom: float | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return data, teacher and initial weights of one repetition."""

    def normal(*shape: int, purpose: str) -> torch.Tensor:
        stream = generator(seed, "beyond quadratics", purpose, index)
        return torch.randn(shape, generator=stream, dtype=torch.float64)

    data = normal(setting.n, setting.d, purpose="data")
    if freedom is not None:
        # Student's: a normal over the root of a chi-square, drawn by its inverse.
        uniform = torch.special.ndtr(normal(setting.n, setting.d, purpose="tails"))
        data = data * torch.from_numpy(_tails(uniform.numpy(), freedom))
    direction = torch.nn.functional.normalize(
        normal(setting.d, purpose="teacher"), dim=0
    )
    starts = math.sqrt(setting.sigma2) * normal(members, setting.d, purpose="start")
    scaled = data / math.sqrt(setting.d)
    return scaled.numpy(), (setting.theta_norm * direction).numpy(), starts.numpy()


def _tails(uniform: FloatArray, freedom: float) -> FloatArray:
    """Return factors that give normal entries Student's tails and unit variance."""
    from scipy.special import chdtri

    square = chdtri(freedom, uniform) / freedom
    scale: FloatArray = np.sqrt((freedom - 2) / freedom / square)
    return scale


def _trained(
    data: FloatArray,
    target: FloatArray,
    starts: FloatArray,
    num_steps: int,
    eta: float,
    rho: float,
    of_rows: RowLoss,
) -> FloatArray:
    """Return members after some steps of SAM, one per row."""
    weights = starts
    for _ in range(num_steps):
        ascended = weights + rho * _slope(data, target, weights, of_rows)
        weights = weights - eta * _slope(data, target, ascended, of_rows)
    return weights


def _slope(
    data: FloatArray, target: FloatArray, weights: FloatArray, of_rows: RowLoss
) -> FloatArray:
    slope: FloatArray = of_rows(weights @ data.T, target)[1] @ data
    return slope


def _largest_rise(
    data: FloatArray,
    target: FloatArray,
    weights: FloatArray,
    rho0: float,
    of_rows: RowLoss,
) -> float:
    """Return the largest rise of a convex loss within a radius."""
    change = np.zeros_like(weights)
    for _ in range(ASCENTS):
        slope = _slope(data, target, weights + change, of_rows)
        change = rho0 * slope / max(float(np.linalg.norm(slope)), 1e-300)
    before, after = (
        of_rows(place @ data.T, target)[0].sum()
        for place in (weights, weights + change)
    )
    return float(after - before)
