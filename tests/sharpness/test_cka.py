"""Linear CKA against its kernel form, and what it does not see."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import modest
from tepui.data import Arrays
from tepui.models import MLP
from tepui.sharpness import cka, linear_cka, pairwise_cka


def kernel_cka(x, y):
    """HSIC of centered Gram matrices, normalized."""
    n = len(x)
    centring = torch.eye(n).double() - 1 / n
    K, L = centring @ (x @ x.T) @ centring, centring @ (y @ y.T) @ centring
    return float((K * L).sum() / (K.norm() * L.norm()))


@given(st.integers(0, 1000), st.integers(1, 6), st.integers(1, 6))
@modest
def test_equals_the_kernel_form(seed, width, other):
    stream = torch.Generator().manual_seed(seed)
    x = torch.randn(8, width, generator=stream, dtype=torch.float64)
    y = torch.randn(8, other, generator=stream, dtype=torch.float64)
    assert float(linear_cka(x, y)) == pytest.approx(kernel_cka(x, y), abs=1e-12)
    rotation = torch.linalg.qr(torch.randn(width, width, generator=stream).double()).Q
    assert float(linear_cka(x, -3 * x @ rotation + 2)) == pytest.approx(1.0)


def test_members_are_compared_by_features():
    torch.manual_seed(0)
    models = [MLP(6, (7,), 4).double() for _ in range(3)]
    models[2].load_state_dict(models[0].state_dict())
    x = torch.randn(30, 6, dtype=torch.float64)
    data = Arrays(x, torch.arange(30) % 4)
    measured = pairwise_cka(models, data, batch_size=8)
    with torch.no_grad():
        features = [model.features(x) for model in models]
    assert float(measured[0, 1]) == pytest.approx(kernel_cka(features[0], features[1]))
    assert float(measured[0, 2]) == pytest.approx(1.0)
    assert torch.equal(measured, measured.T)
    mean = cka(models, data)
    pairs = torch.stack([measured[0, 1], measured[0, 2], measured[1, 2]])
    assert mean.value == pytest.approx(float(pairs.mean()))
    assert mean.standard_error == pytest.approx(float(pairs.std()) / 3**0.5)
    assert math.isnan(cka(models[:2], data).standard_error)
