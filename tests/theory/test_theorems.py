"""Theorems 1 and 2 against counts of terms, recorded values and their limits."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import modest
from tepui.theory import Setting, phi, subset_constant, theorem1, theorem2

SETTING = Setting(rho0=0.01, n=3000, d=150, sigma2=0.1, theta_norm=15**0.5)
GAPS = ("haar", "cauchy_schwarz", "notebook", "paper")


def constant_naive(k, eta, rho, ratio, S):
    """C as the sum over four block indices of E tr[H_a B_b B_c H_d] / dim.

    Blocks are independent and without preferred direction, so that letters of one block
    meet across scalars; only H_a B_b B_a H_b crosses, and free probability knows it.
    """
    r = ratio / S

    def p(i, j):
        return float(phi(i, j, eta=eta, rho=rho, ratio=r))

    total = 0.0
    for a, b, c, d in product(range(S), repeat=4):
        if a == c and b == d and a != b:
            total += 2 * p(k, 1) * r * p(k, 0) - (r * p(k, 0)) ** 2
        else:
            total += math.prod(
                p(k * [b, c].count(block), [a, d].count(block))
                for block in {a, b, c, d}
            )
    return total


@pytest.mark.parametrize("S", [1, 2, 3, 4])
@pytest.mark.parametrize("k", [0, 1, 4])
def test_the_corrected_constant_counts_every_term(S, k):
    options = {"eta": 0.02, "rho": 0.1, "ratio": 20.0}
    actual = subset_constant(k, subsets=S, **options)
    assert float(actual) == pytest.approx(constant_naive(k, *options.values(), S))


@modest
@given(
    k=st.integers(0, 20),
    eta=st.floats(0, 0.1),
    share=st.floats(0, 1),
    ratio=st.floats(0.5, 20),
    S=st.integers(1, 12),
)
def test_the_printed_constant_is_never_smaller(k, eta, share, ratio, S):
    options = {"eta": eta, "rho": share, "ratio": ratio, "subsets": S}
    corrected = float(subset_constant(k, **options))
    printed = float(subset_constant(k, constant="printed", **options))
    assert printed >= corrected * (1 - 1e-10)
    r = ratio / S
    z, y, c = (
        float(phi(i, j, eta=eta, rho=share, ratio=r))
        for i, j in ((k, 0), (k, 1), (2 * k, 0))
    )
    mixed = r * (1 + r) * z**2 + r**2 * c - 2 * r * z * y
    gap = S * (S - 1) * ((y - r * z) ** 2 + (S - 2) / 2 * mixed)
    assert printed - corrected == pytest.approx(gap, rel=1e-6, abs=1e-9 * printed)


@pytest.mark.parametrize(
    ("rho", "diversity"),
    [(0.5, 14.30), (0.3, 0.2359), (0.1, 0.002384), (0.02, 0.01601)],
)
def test_theorem1_from_its_moments(rho, diversity):
    options = {"eta": 0.01, "rho": rho, "ratio": 20.0}
    p22, p44 = float(phi(6, 2, **options)), float(phi(12, 4, **options))
    result = {gap: theorem1(SETTING, 3, eta=0.01, rho=rho, gap=gap) for gap in GAPS}
    length, rho0 = SETTING.theta_norm, SETTING.rho0
    spread = (p44 - p22**2) / p22**1.5
    gaps = {
        "haar": rho0 * length * spread / 152,
        "cauchy_schwarz": rho0 * length * spread / 2,
        "notebook": rho0 * spread / (2 * length),
        "paper": spread / (2 * length),
    }
    slope = rho0 * math.sqrt(p22) * length
    for gap, trade_off in result.items():
        assert float(trade_off.diversity) == pytest.approx(diversity, rel=5e-4)
        upper = rho0**2 / 2 * (math.sqrt(20) + 1) ** 2 + slope
        assert float(trade_off.sharpness_upper) == pytest.approx(upper)
        lower = rho0**2 / 2 * (math.sqrt(20) - 1) ** 2 + slope - gaps[gap]
        assert float(trade_off.sharpness_lower) == pytest.approx(lower), gap


@pytest.mark.parametrize("finite_size", [False, True])
def test_one_block_is_theorem_one(finite_size):
    rho = np.linspace(0, 0.5, 6)
    k = np.array([[0], [3], [8]])
    options = {"eta": 0.01, "rho": rho, "finite_size": finite_size}
    whole, one = (
        theorem1(SETTING, k, **options),
        theorem2(SETTING, k, subsets=1, **options),
    )
    np.testing.assert_allclose(one.diversity, whole.diversity, rtol=1e-12)
    np.testing.assert_allclose(one.sharpness_upper, whole.sharpness_upper, rtol=1e-12)
    assert np.isnan(one.sharpness_lower).all()


def test_the_bound_stays_finite_where_its_square_is_not():
    # The fourth moment at 4k is near 1e586 here.
    result = theorem1(SETTING, 90, eta=0.1, rho=0.5)
    assert 1e140 < float(result.sharpness_upper) < 1e150
    assert math.isfinite(float(result.sharpness_lower))
    with pytest.warns(RuntimeWarning, match="C is beyond the range"):
        subset_constant(160, eta=0.5, rho=0.5, ratio=20.0, subsets=10)
    with pytest.warns(RuntimeWarning, match="diversity is beyond.*divergent regime"):
        result = theorem2(SETTING, 160, eta=0.5, rho=0.5, subsets=10)
    assert float(result.diversity) == math.inf
    assert math.isfinite(float(result.sharpness_upper))


@pytest.mark.parametrize("subsets", [1, 2, 10])
def test_rounding_makes_no_diversity_negative(subsets):
    setting = replace(SETTING, sigma2=0.0)
    result = theorem2(
        setting, np.arange(40), eta=0.0, rho=np.zeros(40), subsets=subsets
    )
    assert (result.diversity >= 0).all()
