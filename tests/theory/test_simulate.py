"""Simulations against literal ones, and the theorems against simulations."""

import numpy as np
import pytest

from tepui.theory import (
    Setting,
    largest_stable_rho,
    simulate_sam,
    simulate_subset_constant,
    stable,
    subset_constant,
    theorem1,
)
from tepui.theory.simulate import _drawn

PAPER = Setting(rho0=0.01, n=3000, d=150, sigma2=0.1, theta_norm=15**0.5)
SMALL = Setting(rho0=0.1, n=60, d=6, sigma2=0.2, theta_norm=1.5)


@pytest.fixture(scope="module")
def stable_grid():
    """Theorem 1 beside the paper's simulation, all over the stable regime."""
    k, eta, share = np.meshgrid([1, 3, 10], [0.002, 0.01], [0, 0.4, 0.8, 1])
    rho = share * largest_stable_rho(eta, 20.0)
    assert stable(eta, rho * (1 - 1e-12), 20.0).all()
    return k, eta, rho, simulate_sam(PAPER, k, eta=eta, rho=rho)


def test_diversity_is_within_three_standard_errors(stable_grid):
    k, eta, rho, seen = stable_grid
    said = theorem1(PAPER, k, eta=eta, rho=rho, finite_size=True)
    deviation = np.abs(seen.diversity - said.diversity) / seen.diversity_error
    assert deviation.max() < 3


def test_the_haar_lower_bound_holds_and_is_close(stable_grid):
    k, eta, rho, seen = stable_grid
    options = {"eta": eta, "rho": rho, "finite_size": True}
    lower = theorem1(PAPER, k, **options).sharpness_lower
    assert ((lower - seen.sharpness) / seen.sharpness_error).max() < 3
    few_steps = k <= 3
    assert (lower / seen.sharpness)[few_steps].min() > 0.85
    for gap in ("cauchy_schwarz", "paper"):
        assert (theorem1(PAPER, k, gap=gap, **options).sharpness_lower < lower).all()


@pytest.mark.parametrize(
    ("case", "expected", "printed"),
    [
        ({"k": 5, "eta": 0.01, "rho": 1.0, "n": 3000, "d": 150, "S": 10}, 19471, 20308),
        ({"k": 5, "eta": 0.01, "rho": 0.4, "n": 3000, "d": 150, "S": 10}, 26420, 27208),
        (
            {"k": 14, "eta": 0.01, "rho": 0.4, "n": 3000, "d": 150, "S": 10},
            14330,
            15065,
        ),
        ({"k": 4, "eta": 0.02, "rho": 0.1, "n": 1200, "d": 60, "S": 3}, 491.66, 510.5),
    ],
)
def test_the_corrected_constant_agrees_with_random_matrices(case, expected, printed):
    n, d, S = case["n"], case["d"], case["S"]
    point = {"k": case["k"], "eta": case["eta"], "rho": case["rho"], "subsets": S}
    corrected = float(subset_constant(ratio=n / d, **point))
    other = float(subset_constant(ratio=n / d, constant="printed", **point))
    assert corrected == pytest.approx(expected, rel=1e-4)
    assert other == pytest.approx(printed, rel=1e-4)
    mean, error = simulate_subset_constant(n=n, d=d, matrices=8, **point)
    assert abs(mean - corrected) < 3 * error
    assert abs(mean - other) > 10 * error


def test_the_maximizers_agree():
    options = {"eta": 0.01, "rho": [0.0, 0.1, 0.5], "matrices": 4}
    exact = simulate_sam(PAPER, 3, **options)
    ascent = simulate_sam(PAPER, 3, maximizer="ascent", **options)
    assert (ascent.sharpness <= exact.sharpness * (1 + 1e-12)).all()
    np.testing.assert_allclose(ascent.sharpness, exact.sharpness, rtol=1e-4)
    np.testing.assert_array_equal(ascent.diversity, exact.diversity)


@pytest.mark.parametrize("subsets", [1, 3])
def test_exact_averages_match_drawn_starts(subsets):
    point = {"eta": 0.03, "rho": 0.1, "subsets": subsets}
    exact = simulate_sam(SMALL, 3, matrices=200, **point)
    drawn = simulate_sam(SMALL, 3, matrices=200, initializations=100, **point)
    apart = np.hypot(exact.diversity_error, drawn.diversity_error)
    assert abs(drawn.diversity - exact.diversity) < 3 * apart
    # A drawn mean strays from the true one, so the sharpness can only look larger.
    assert drawn.sharpness == pytest.approx(float(exact.sharpness), rel=0.05)


def test_draws_depend_on_seed_alone():
    point = {"eta": 0.01, "rho": [0.1, 0.2]}
    one = simulate_sam(SMALL, 3, matrices=4, seed=1, **point)
    _drawn.cache_clear()
    again = simulate_sam(SMALL, 3, matrices=4, seed=1, **point)
    other = simulate_sam(SMALL, 3, matrices=4, seed=2, **point)
    np.testing.assert_array_equal(one.sharpness, again.sharpness)
    assert (one.sharpness != other.sharpness).all()
    alone = simulate_sam(SMALL, 3, matrices=4, seed=1, eta=0.01, rho=0.2)
    assert float(alone.sharpness) == pytest.approx(one.sharpness[1], rel=1e-12)
