"""A2D: the kernel by hand and at its limits, parallel and sequential members."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diversification_cases import a2d_naive
from strategies import close, ensembles, modest, probs_naive
from tepui.methods import A2D, CoupledBatch
from tepui.methods.a2d import EPSILON, a2d, a2d_of_pairs, over_pairs
from training.cases import (
    one_thread,
)

single = pytest.fixture(autouse=True)(one_thread)
DOUBLE = {"dtype": torch.float64}
HIGHEST = -math.log(2 * EPSILON * (1 - EPSILON))


def coupled_batch(losses, unlabeled):
    outputs = torch.zeros(len(losses), losses.shape[1], unlabeled.shape[-1])
    return CoupledBatch(outputs, losses, torch.zeros(losses.shape[1]), unlabeled)


def logits_of(*rows):
    """Logits of members that see one sample, from their probabilities."""
    return torch.tensor(rows, **DOUBLE).log()[:, None]


@given(ensembles(min_members=2))
@modest
def test_pairs_match_the_definition(logits):
    members, samples, _ = logits.shape
    probs = probs_naive(logits)
    expected = [
        [a2d_naive(probs[m][n], probs[k][n]) for n in range(samples)]
        for m, k in itertools.combinations(range(members), 2)
    ]
    log_probs = logits.log_softmax(-1)
    close(a2d_of_pairs(log_probs), expected, atol=1e-8)
    first, second = zip(*itertools.combinations(range(members), 2), strict=True)
    pairs = log_probs[list(first)], log_probs[list(second)]
    close(a2d(*pairs), a2d_of_pairs(log_probs))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0.0, 20.0, 1e3, 1e30])
def test_finite_with_finite_gradient_at_one_hot_outputs(dtype, size):
    rows = torch.eye(3, dtype=dtype)[[0, 0, 1]]
    logits = (size * rows[:, None]).requires_grad_()
    values = a2d_of_pairs(logits.log_softmax(-1))
    (gradient,) = torch.autograd.grad(values.sum(), logits)
    assert values.isfinite().all()
    assert gradient.isfinite().all()
    if size >= 1e3:
        expected = torch.tensor([[HIGHEST], [0.0], [0.0]], dtype=dtype)
        torch.testing.assert_close(values, expected, rtol=1e-6, atol=1e-6)


def test_gradient_is_that_of_the_formula():
    logits = torch.randn(3, 4, 5, **DOUBLE, requires_grad=True)

    def values(logits):
        return a2d_of_pairs(logits.log_softmax(-1))

    assert torch.autograd.gradcheck(values, (logits,))


@given(st.integers(2, 6))
def test_the_papers_norm_is_half_the_mean(members):
    values = torch.randn(members * (members - 1) // 2, **DOUBLE)
    paper = values.sum() / (members * (members - 1))
    close(over_pairs(values, "paper"), paper)
    close(over_pairs(values, "mean"), 2 * paper)


@pytest.mark.parametrize(("pair_norm", "pairs"), [("paper", 6), ("mean", 3)])
def test_parallel_loss_by_hand(pair_norm, pairs):
    rows = [[0.7, 0.3], [0.6, 0.4], [0.2, 0.8]]
    losses = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], **DOUBLE)
    agreement = sum(a2d_naive(p, q) for p, q in itertools.combinations(rows, 2))
    method = A2D(weight=0.3, pair_norm=pair_norm)
    found = method.loss(coupled_batch(losses, logits_of(*rows)))
    close(found, 3.5 + 0.3 * agreement / pairs)
