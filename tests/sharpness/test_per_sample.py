"""Per-sample sharpness measures against closed forms and plain loops."""

import pytest
import torch
from torch import nn

from tepui.data import Arrays
from tepui.losses import cross_entropy
from tepui.sharpness import (
    sample_fisher_trace,
    sample_hessian_trace,
    sample_sam_gap,
    sample_worst_case_gap,
)


def half_square(outputs, targets):
    return 0.5 * (outputs - targets).square().sum(1)


def regression(samples=6, features=4):
    """Linear regression: the Hessian of sample x is x xᵀ (with a one for the bias)."""
    torch.manual_seed(0)
    x = torch.randn(samples, features, dtype=torch.float64)
    data = Arrays(x, torch.randn(samples, 1, dtype=torch.float64))
    return nn.Linear(features, 1).double(), data


def extended(data):
    return torch.cat([data.inputs, torch.ones(len(data), 1).double()], 1)


def residuals(model, data):
    return (model(data.inputs) - data.targets)[:, 0].detach()


def test_worst_case_of_linear_regression_has_a_closed_form():
    """Moving along ±x: the residual grows by rho times the length of x."""
    model, data = regression()
    length = extended(data).norm(dim=1)
    r, rho = residuals(model, data).abs(), 0.1
    expected = 0.5 * ((r + rho * length) ** 2 - r**2)
    measured = sample_worst_case_gap(
        model, data, rho=rho, loss=half_square, batch_size=4
    )
    torch.testing.assert_close(measured, expected, rtol=1e-6, atol=0)


def test_sam_gap_is_the_rise_after_the_batch_perturbation():
    model, data = regression()
    x, r = extended(data), residuals(model, data)
    rho, expected = 0.1, []
    for rows in torch.arange(6).split(4):
        slope = (r[rows, None] * x[rows]).mean(0)
        step = rho * slope / slope.norm()
        moved = r[rows] + x[rows] @ step
        expected.append(0.5 * (moved**2 - r[rows] ** 2))
    measured = sample_sam_gap(model, data, rho=rho, loss=half_square, batch_size=4)
    torch.testing.assert_close(measured, torch.cat(expected), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "measure",
    [
        lambda m, d, b: sample_worst_case_gap(m, d, batch_size=b),
        lambda m, d, b: sample_hessian_trace(
            m, d, batch_size=b, generator=torch.Generator().manual_seed(0)
        ),
    ],
    ids=["worst case", "hessian trace"],
)
def test_batches_do_not_matter_and_the_model_is_left_alone(measure):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Tanh(), nn.Flatten(), nn.Linear(12, 3)
    ).double()
    x = torch.randn(7, 1, 4, 4, dtype=torch.float64)
    data = Arrays(x, torch.arange(7) % 3)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    whole = measure(model, data, 64)
    torch.testing.assert_close(measure(model, data, 2), whole)
    assert model.training
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())


def test_scores_of_images_whose_pixels_have_classes():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 3, 1))
    labels = torch.randint(0, 3, (4, 5, 5))
    labels[0, 0] = -100
    data = Arrays(torch.randn(4, 1, 5, 5), labels)
    expected = []
    for x, y in zip(data.inputs, labels, strict=True):
        loss = cross_entropy(model(x[None]), y[None]).sum()
        slope = torch.autograd.grad(loss, [*model.parameters()])
        expected.append(sum(part.square().sum() for part in slope))
    torch.testing.assert_close(sample_fisher_trace(model, data), torch.stack(expected))
    for score in (sample_hessian_trace, sample_sam_gap, sample_worst_case_gap):
        assert score(model, data).isfinite().all()
