"""Losses give one value per sample."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from strategies import close, labeled_ensembles, modest, softmax_naive
from tepui.core.per_member import for_member
from tepui.losses import CrossEntropy, cross_entropy

SMOOTHING = st.sampled_from([0.0, 0.1, 0.5, 1.0])


def cross_entropy_naive(row, target, smoothing):
    """Minus the expected log-probability under the smoothed target."""
    logs = [math.log(p) if p > 0 else -math.inf for p in softmax_naive(row)]
    spread = smoothing / len(row)
    weights = [(1 - smoothing) * share + spread for share in target]
    return -sum(w * log for w, log in zip(weights, logs, strict=True) if w > 0)


@modest
@given(labeled_ensembles(), SMOOTHING)
def test_matches_naive_for_class_indices_and_for_probabilities(case, smoothing):
    logits, labels = case[0][0], case[1]
    one_hot = F.one_hot(labels, logits.shape[-1]).double()
    expected = [
        cross_entropy_naive(row, target, smoothing)
        for row, target in zip(logits.tolist(), one_hot.tolist(), strict=True)
    ]
    close(cross_entropy(logits, labels, smoothing), expected, atol=1e-9)
    close(cross_entropy(logits, one_hot, smoothing), expected, atol=1e-9)


@modest
@given(labeled_ensembles())
def test_samples_do_not_influence_each_other(case):
    logits, labels = case[0][0], case[1]
    losses = cross_entropy(logits, labels)
    assert losses.shape == labels.shape
    for index in range(len(labels)):
        alone = cross_entropy(logits[index : index + 1], labels[index : index + 1])
        close(losses[index : index + 1], alone)


def test_soft_targets_weigh_the_classes():
    logits = torch.tensor([[1.0, 2.0, 4.0]], dtype=torch.float64)
    mixed = cross_entropy(logits, torch.tensor([[0.25, 0.0, 0.75]]).double())
    parts = cross_entropy(logits.expand(2, 3), torch.tensor([0, 2]))
    close(mixed, [0.25 * parts[0] + 0.75 * parts[1]])


def test_the_mean_has_the_gradient_of_the_usual_loss():
    logits = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 1, 2, 3, 0])
    ours, usual = (logits.clone().requires_grad_() for _ in range(2))
    cross_entropy(ours, labels).mean().backward()
    F.cross_entropy(usual, labels).backward()
    torch.testing.assert_close(ours.grad, usual.grad)


def test_a_certain_wrong_answer_has_a_large_but_finite_loss():
    loss = cross_entropy(torch.tensor([[1000.0, 0.0]]), torch.tensor([1]))
    assert loss.tolist() == [1000.0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_the_type_of_the_outputs_is_kept(dtype):
    losses = cross_entropy(torch.zeros(2, 3, dtype=dtype), torch.tensor([0, 2]))
    assert losses.dtype is dtype


def test_label_smoothing_outside_its_range_is_named():
    for loss in (
        lambda: cross_entropy(torch.zeros(1, 2), torch.tensor([0]), 1.5),
        lambda: CrossEntropy(1.5),
        lambda: CrossEntropy((0.1, -0.5)),
    ):
        with pytest.raises(ValueError, match=r"label_smoothing must lie in \[0, 1\]"):
            loss()


def test_the_value_is_the_function():
    outputs, targets = torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])
    expected = cross_entropy(outputs, targets, 0.2)
    assert torch.equal(CrossEntropy(0.2)(outputs, targets), expected)
    short = targets.to(torch.int32)
    assert torch.equal(cross_entropy(outputs, short, 0.2), expected)


def test_members_may_smooth_differently():
    spec = CrossEntropy((0.0, 0.3))
    assert for_member(spec, 1, 2) == CrossEntropy(0.3)
    with pytest.raises(ValueError, match=r"one value per member \(3\), got 2"):
        for_member(spec, 0, 3)
