"""SAM with other losses and tails, against closed forms and autograd."""

import numpy as np
import pytest
import torch
from scipy import stats

from tepui.theory import Setting, iterate_sam, largest_rise, simulate_losses
from tepui.theory import beyond_quadratics as beyond

SETTING = Setting(rho0=0.1, n=60, d=12, sigma2=0.5, theta_norm=2.0)
SLOPES = {"quadratic": beyond._quadratic, "logistic": beyond._logistic}


@pytest.fixture
def problem():
    data, teacher, starts = beyond._drawn(SETTING, 0, 0, 5, None)
    return data, teacher, data @ teacher, starts


def test_quadratic_members_take_the_steps_of_the_other_simulator(problem):
    data, teacher, target, starts = problem
    how = {"num_steps": 4, "eta": 0.05, "rho": 0.1}
    found = beyond._trained(data, target, starts, *how.values(), beyond._quadratic)
    expected = iterate_sam(data.T @ data, starts, teacher, **how)
    assert found == pytest.approx(expected, rel=1e-9)


def test_the_largest_rise_of_a_quadratic_is_the_exact_one(problem):
    data, teacher, target, starts = problem
    eigenvalues, basis = np.linalg.eigh(data.T @ data)
    for weights in starts:
        slope = (eigenvalues * ((weights - teacher) @ basis))[None]
        exact = largest_rise(eigenvalues[None], slope, SETTING.rho0)[0]
        args = (data, target, weights, SETTING.rho0, beyond._quadratic)
        assert beyond._largest_rise(*args) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("loss", SLOPES)
def test_slopes_are_those_of_autograd(problem, loss):
    data, _, target, starts = problem
    weights = torch.tensor(starts[0], requires_grad=True)
    outputs = torch.tensor(data) @ weights
    goal = torch.tensor(target)
    value = {
        "quadratic": ((outputs - goal) ** 2 / 2).sum(),
        "logistic": torch.nn.functional.softplus(-goal.sign() * outputs).sum(),
    }[loss]
    value.backward()
    rows, _ = SLOPES[loss](data @ starts[0], target)
    assert rows.sum() == pytest.approx(value.item())
    found = beyond._slope(data, target, starts[0], SLOPES[loss])
    assert found == pytest.approx(weights.grad.numpy(), rel=1e-9)


@pytest.mark.parametrize("freedom", [3.0, 8.0])
def test_entries_have_student_s_tails_and_the_variance_of_the_others(freedom):
    setting = Setting(rho0=0.1, n=2000, d=10, sigma2=0.5, theta_norm=2.0)
    data, *_ = beyond._drawn(setting, 0, 0, 2, freedom)
    entries = data.ravel() * np.sqrt(10) * np.sqrt(freedom / (freedom - 2))
    assert stats.kstest(entries, stats.t(freedom).cdf).pvalue > 0.01
    assert stats.kstest(entries, "norm").pvalue < 1e-4


def test_untrained_members_have_the_variance_of_their_weights():
    found = simulate_losses(
        SETTING, 0, eta=0.1, rho=[0.0, 0.3], loss="logistic", matrices=40
    )
    assert found.diversity[0] == found.diversity[1]
    gap = abs(found.diversity[0] - SETTING.sigma2)
    assert gap < 4 * found.diversity_error[0]


def test_the_sign_holds_for_quadratics_and_flips_for_a_logistic_loss():
    """Sharpness falls with the radius; diversity falls, too, or falls and rises."""
    setting = Setting(rho0=0.01, n=400, d=20, sigma2=0.1, theta_norm=15**0.5)
    few = {"matrices": 6, "initializations": 10}
    plain = simulate_losses(setting, 3, eta=0.01, rho=[0.0, 0.05, 0.1], **few)
    logistic = simulate_losses(
        setting, 3, eta=0.05, rho=[0.0, 0.6, 3.0], loss="logistic", **few
    )
    for found in (plain, logistic):
        assert (np.diff(found.sharpness) < 0).all()
    assert (np.diff(plain.diversity) < 0).all()
    assert np.sign(np.diff(logistic.diversity)).tolist() == [-1, 1]
