"""The theorems compared with simulation, in standard errors.

Equalities (diversity, C) deviate in both directions, bounds only where they are broken.
The grid is stable throughout. Corrections of order 1/d are included, since simulations
are precise enough to see them.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tepui.theory.moments import FloatArray, IntArray, integer_from, positive
from tepui.theory.setting import (
    Setting,
    check_subsets,
    largest_stable_eta,
    largest_stable_rho,
)
from tepui.theory.simulate import Simulation, simulate_sam, simulate_subset_constant
from tepui.theory.theorems import TradeOff, subset_constant, theorem1, theorem2

STEPS = (1, 3, 10)
# Of the largest stable step size without perturbation, and of the radius beside it.
ETA_SHARES = (0.05, 0.2, 0.5)
RHO_SHARES = (0.0, 0.3, 0.6, 0.9)

Grid = tuple[IntArray, FloatArray, FloatArray]


@dataclass(frozen=True)
class Agreement:
    """Predictions of one quantity and their simulation, one value per grid point.

    Attributes:
        quantity: What is compared.
        relation: Whether the prediction is an equality or a bound.
        k: Steps.
        eta: Step sizes.
        rho: SAM's perturbation radii.
        theory: Predictions.
        simulated: Means over repetitions.
        error: Their standard errors.
    """

    quantity: str
    relation: Literal["equal", "upper bound", "lower bound"]
    k: IntArray
    eta: FloatArray
    rho: FloatArray
    theory: FloatArray
    simulated: FloatArray
    error: FloatArray

    @property
    def deviation(self) -> FloatArray:
        """How far theory is off, in standard errors; zero where a bound holds."""
        excess = (self.simulated - self.theory) / self.error
        if self.relation == "equal":
            return np.abs(excess)
        return np.maximum(excess if self.relation == "upper bound" else -excess, 0.0)


def agreement(
    *,
    n: int = 3000,
    d: int = 150,
    subsets: int = 10,
    rho0: float = 0.01,
    sigma2: float = 0.1,
    matrices: int = 50,
    seed: int = 0,
) -> list[Agreement]:
    """Compare Theorems 1 and 2 with simulations over a grid in the stable regime.

    Args:
        n: Rows of the data.
        d: Columns of the data; below about 100, terms beyond order 1/d show.
        subsets: Blocks of rows in Theorem 2.
        rho0: Radius within which sharpness is measured.
        sigma2: Variance of the initial weights; the teacher is as long as they are.
        matrices: Repetitions.
        seed: What all draws derive from.

    Returns:
        One entry per quantity.

    Example:
        >>> entries = agreement(n=40, d=20, subsets=2, matrices=2)
        >>> [f"{entry.quantity}, {entry.relation}" for entry in entries][:2]
        ['diversity, Theorem 1, equal', 'sharpness, Theorem 1, upper bound']
    """
    integer_from(1, "d", d)
    positive("sigma2", sigma2)
    length = float(np.sqrt(sigma2 * d))
    setting = Setting(rho0=rho0, n=n, d=d, sigma2=sigma2, theta_norm=length)
    check_subsets(subsets, n)
    draws = {"matrices": matrices, "seed": seed}
    return [*_theorem1(setting, draws), *_theorem2(setting, subsets, draws)]


def _theorem1(setting: Setting, draws: dict[str, Any]) -> list[Agreement]:
    k, eta, rho = grid = _grid(setting.ratio)
    theory = theorem1(setting, k, eta=eta, rho=rho, finite_size=True)
    seen = simulate_sam(setting, k, eta=eta, rho=rho, **draws)
    sharp = theory.sharpness_lower, seen.sharpness, seen.sharpness_error
    lower = Agreement("sharpness, Theorem 1", "lower bound", *grid, *sharp)
    return [*_common(1, grid, theory, seen), lower]


def _theorem2(setting: Setting, subsets: int, draws: dict[str, Any]) -> list[Agreement]:
    n, d, ratio = setting.n, setting.d, setting.ratio
    k, eta, rho = grid = _grid(ratio / subsets)
    blocks: dict[str, Any] = {"eta": eta, "rho": rho, "subsets": subsets}
    theory = theorem2(setting, k, finite_size=True, **blocks)
    seen = simulate_sam(setting, k, **blocks, **draws)
    constant = subset_constant(k, ratio=ratio, d=d, **blocks)
    simulated = simulate_subset_constant(k, n=n, d=d, **blocks, **draws)
    c = Agreement("C, Theorem 2", "equal", *grid, constant, *simulated)
    return [*_common(2, grid, theory, seen), c]


def _common(
    number: int, grid: Grid, theory: TradeOff, seen: Simulation
) -> tuple[Agreement, Agreement]:
    """Compare what both theorems predict."""
    diverse = theory.diversity, seen.diversity, seen.diversity_error
    sharp = theory.sharpness_upper, seen.sharpness, seen.sharpness_error
    return (
        Agreement(f"diversity, Theorem {number}", "equal", *grid, *diverse),
        Agreement(f"sharpness, Theorem {number}", "upper bound", *grid, *sharp),
    )


def _grid(ratio: float) -> Grid:
    k, step, radius = np.meshgrid(STEPS, ETA_SHARES, RHO_SHARES, indexing="ij")
    eta = step.ravel() * largest_stable_eta(0.0, ratio)
    return k.ravel(), eta, radius.ravel() * largest_stable_rho(eta, ratio)
