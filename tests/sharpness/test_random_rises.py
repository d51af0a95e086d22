"""Average-case and SAM-sharpness against the second-order closed forms."""

import math

import pytest
import torch

from quadratic import inputs_of, own_value, random_quadratic
from tepui.sharpness import average_case, sam_sharpness
from tepui.sharpness.measurement import crossed_mean_of

DATA = inputs_of(1.0, 1.0)


def at_minimum():
    model = random_quadratic(0, convex=True)
    model.slope.copy_(-model.hessian @ model.weights.detach())
    return model


def stream():
    return torch.Generator().manual_seed(7)


@pytest.mark.parametrize(("norm", "share"), [("l2", 1.0), ("linf", 1 / 3)])
@pytest.mark.parametrize("adaptive", [True, False])
def test_average_case_of_a_quadratic(norm, share, adaptive):
    model = at_minimum()
    w = model.weights.detach()
    squares = w.square() if adaptive else torch.ones_like(w)
    exact = 0.5 * 0.3**2 * share * float((squares * model.hessian.diagonal()).sum())
    how = {"loss": own_value, "rho": 0.3, "norm": norm, "adaptive": adaptive}
    measured = average_case(model, DATA, num_draws=1500, generator=stream(), **how)
    assert abs(measured.value - exact) < 4 * measured.standard_error < 0.3 * exact


def test_several_radii_share_their_draws_and_are_those_of_each_alone():
    model, how = random_quadratic(0), {"loss": own_value, "num_draws": 7}
    radii = [0.1, 0.4, 0.2]
    several = average_case(model, DATA, rho=radii, generator=stream(), **how)
    alone = [average_case(model, DATA, rho=r, generator=stream(), **how) for r in radii]
    assert several == tuple(alone)
    assert [each.settings["rho"] for each in several] == radii
    (one,) = average_case(model, DATA, rho=[0.1], generator=stream(), **how)
    assert one == alone[0]
    with pytest.raises(ValueError, match="rho must be a number, or several"):
        average_case(model, DATA, rho=[], **how)
    with pytest.raises(ValueError, match=r"rho must be finite and .* got -1"):
        average_case(model, DATA, rho=[0.1, -1.0], **how)


def test_sam_sharpness_is_half_of_rho_squared_times_the_trace():
    model = at_minimum()
    exact = 0.5 * 0.1**2 * float(model.hessian.trace())
    how = {"loss": own_value, "rho": 0.1, "num_draws": 1500}
    measured = sam_sharpness(model, DATA, generator=stream(), **how)
    assert abs(measured.value - exact) < 4 * measured.standard_error < 0.3 * exact
    ball = sam_sharpness(model, DATA, mode="l2", generator=stream(), **how)
    assert abs(ball.value - exact / 6) < 4 * ball.standard_error < 0.2 * exact


def test_standard_errors_of_crossed_draws_and_samples():
    values = torch.tensor([[1.0, 2.0, 6.0], [3.0, 4.0, 8.0]])
    measured = crossed_mean_of(values, {})
    draws, samples = values.mean(1), values.mean(0)
    expected = math.hypot(draws.std() / 2**0.5, samples.std() / 3**0.5)
    assert measured.value == pytest.approx(4.0)
    assert measured.standard_error == pytest.approx(expected)
    one = crossed_mean_of(values[:1], {})
    assert one.standard_error == pytest.approx(float(values[0].std()) / 3**0.5)
    assert math.isnan(crossed_mean_of(values[:1, :1], {}).standard_error)
