"""The tangent kernel's log-determinant against the dense Jacobian."""

import math

import pytest
import torch
from torch import nn

from tepui.core.seeding import generator
from tepui.data import Arrays
from tepui.sharpness import ntk_logdet


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()


def classified(samples):
    stream = torch.Generator().manual_seed(1)
    x = torch.randn(samples, 4, generator=stream, dtype=torch.float64)
    return Arrays(x, torch.randint(3, (samples,), generator=stream))


def naive_logdet(model, inputs, masks):
    rows = []
    for x in inputs:
        grads = torch.autograd.grad(model(x[None]).sum(), list(model.parameters()))
        named = zip(model.named_parameters(), grads, strict=True)
        rows.append(torch.cat([(g * masks.get(n, 1)).flatten() for (n, _), g in named]))
    rows = torch.stack(rows)
    return float(torch.linalg.eigvalsh(rows @ rows.T).log().sum())


@pytest.mark.parametrize("masked", [False, True])
def test_equals_the_dense_kernel(masked):
    model, data = network(), classified(10)
    masks = {"0.weight": torch.arange(24).view(6, 4) % 3 > 0} if masked else {}
    if masked:
        model[0].register_buffer("weight_mask", masks["0.weight"])
    measured = ntk_logdet(model, data, num_samples=10)
    rows = torch.randperm(10, generator=generator("selection")).split(5)
    expected = [naive_logdet(model, data.inputs[row], masks) for row in rows]
    assert measured.value == pytest.approx(sum(expected) / 2, rel=1e-9)
    error = abs(expected[0] - expected[1]) / 2
    assert measured.standard_error == pytest.approx(error, rel=1e-6)


def test_equal_samples_leave_no_volume():
    data = Arrays(torch.ones(5, 4).double(), torch.zeros(5, dtype=torch.int64))
    measured = ntk_logdet(nn.Linear(4, 3, bias=False).double(), data)
    assert measured.value == -math.inf or measured.value < -50
