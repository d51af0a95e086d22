"""The edge of stability, against the factor on a dense spectrum."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import modest
from tepui.theory import largest_stable_eta, largest_stable_rho, stable


@modest
@given(st.floats(1e-3, 1), st.floats(0, 2), st.floats(0.1, 30))
def test_stable_means_no_factor_beyond_one_on_the_bulk(eta, rho, ratio):
    low, high = (math.sqrt(ratio) - 1) ** 2, (math.sqrt(ratio) + 1) ** 2
    x = np.linspace(low, high, 1001)
    largest = np.abs(1 - eta * x - eta * rho * x**2).max()
    if abs(largest - 1) > 1e-9:
        assert bool(stable(eta, rho, ratio)) == (largest <= 1)


@pytest.mark.parametrize(
    ("eta", "ratio", "rho"),
    [(0.01, 20, 0.190), (0.05, 20, 0.011), (0.1, 2, 0.417), (0.3, 2, 0.025)],
)
def test_limits_of_the_published_figures(eta, ratio, rho):
    limit = float(largest_stable_rho(eta, ratio))
    assert limit == pytest.approx(rho, abs=5e-4)
    assert stable(eta, limit * (1 - 1e-12), ratio)
    assert not stable(eta, limit * (1 + 1e-9), ratio)
    assert float(largest_stable_eta(limit, ratio)) == pytest.approx(eta)


def test_some_step_sizes_are_stable_with_no_radius():
    assert np.isnan(largest_stable_rho([0.1, 0.5], 20.0)).all()
    assert math.isnan(largest_stable_rho(0.5, 2.0))
