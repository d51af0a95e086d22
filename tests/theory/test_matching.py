"""Step sizes that reach a given sharpness."""

import numpy as np
import pytest

from tepui.theory import Setting, eta_at_sharpness, stable, theorem2

SETTING = Setting(rho0=0.01, n=3000, d=150, sigma2=0.1, theta_norm=15**0.5)


@pytest.mark.parametrize("subsets", [1, 10])
@pytest.mark.parametrize("rho", [0.0, 0.4])
def test_the_bound_has_the_wanted_value_and_training_is_stable(subsets, rho):
    wanted = np.array([[0.7, 0.5], [0.4, 0.35]])
    eta = eta_at_sharpness(SETTING, wanted, 3, rho=rho, subsets=subsets)
    assert eta.shape == wanted.shape
    assert stable(eta, rho, 20 / subsets).all()
    actual = theorem2(SETTING, 3, eta=eta, rho=rho, subsets=subsets).sharpness_upper
    np.testing.assert_allclose(actual, wanted, rtol=1e-9)


def test_the_smallest_step_size_is_taken():
    eta = float(eta_at_sharpness(SETTING, 0.3, 3, rho=0.0))
    below = theorem2(SETTING, 3, eta=np.linspace(0, eta, 50)[:-1], rho=0.0, subsets=1)
    assert (below.sharpness_upper > 0.3).all()


def test_what_no_stable_step_size_reaches_is_nan():
    eta = eta_at_sharpness(SETTING, [1e-4, 0.3, 5.0], 3, rho=0.0)
    assert np.isnan(eta).tolist() == [True, False, True]


def test_equally_sharp_members_on_blocks_are_more_diverse():
    # What remains of the paper's claim, in the stable regime, at equal radii.
    for rho in (0.0, 0.4):
        gains = []
        for wanted in (0.6, 0.5, 0.4):
            diversity = [
                float(
                    theorem2(
                        SETTING,
                        3,
                        eta=eta_at_sharpness(SETTING, wanted, 3, rho=rho, subsets=S),
                        rho=rho,
                        subsets=S,
                    ).diversity
                )
                for S in (1, 10)
            ]
            gains.append(diversity[1] / diversity[0] - 1)
        assert 0 < gains[0] < gains[1] < gains[2]
