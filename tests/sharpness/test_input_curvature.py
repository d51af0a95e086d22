"""Curvature around inputs against the analytic Hessian of logistic regression."""

import pytest
import torch
from torch import nn

from tepui.data import Arrays
from tepui.sharpness import input_curvature, sample_input_curvature


def logistic(dtype=torch.float64):
    torch.manual_seed(0)
    return nn.Linear(5, 3).to(dtype)


def classified(samples=12):
    stream = torch.Generator().manual_seed(1)
    x = torch.randn(samples, 5, generator=stream, dtype=torch.float64)
    return Arrays(x, torch.randint(3, (samples,), generator=stream))


def analytic(model, data, step, signs):
    """h |Wᵀ (diag P - P Pᵀ) W v| for every sign vector and sample."""
    W = model.weight.detach()
    P = model(data.inputs).softmax(1).detach()
    H = torch.diag_embed(P) - P[:, :, None] * P[:, None]
    return step * torch.stack([(W.T @ H @ W @ v).norm(dim=1) for v in signs])


def drawn_signs(seed, probes):
    stream = torch.Generator().manual_seed(seed)
    return [
        (2 * torch.randint(2, (5,), generator=stream) - 1).double()
        for _ in range(probes)
    ]


def test_logistic_regression_has_a_closed_form():
    model, data, step = logistic(), classified(), 1e-6
    expected = analytic(model, data, step, drawn_signs(4, 10))
    measured = sample_input_curvature(
        model, data, step=step, generator=torch.Generator().manual_seed(4), batch_size=5
    )
    torch.testing.assert_close(measured, expected.mean(0), rtol=1e-4, atol=0)
    mean = input_curvature(
        model, data, step=step, generator=torch.Generator().manual_seed(4)
    )
    assert mean.value == pytest.approx(float(expected.mean()), rel=1e-4)
    assert mean.standard_error > 0


def test_floating_parts_of_a_mapping_are_moved():
    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.gate = logistic(), nn.Embedding(2, 3).double()

        def forward(self, x, kind):
            return self.layer(x) + self.gate(kind)

    data = classified()
    model = Gated()
    nn.init.zeros_(model.gate.weight)
    mapped = Arrays({"x": data.inputs, "kind": torch.arange(12) % 2}, data.targets)
    assert input_curvature(model, mapped) == input_curvature(model.layer, data)
