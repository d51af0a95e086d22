"""Losses give one value per sample."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from strategies import close, labeled_ensembles, modest, softmax_naive
from tepui import tasks
from tepui.losses import (
    MSE,
    BinaryCrossEntropy,
    CrossEntropy,
    GaussianNLL,
    Quantiles,
    binary_cross_entropy,
    cross_entropy,
    gaussian_nll,
    pinball,
)
from tepui.tasks.named import read_task

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


def test_soft_targets_weigh_the_classes():
    logits = torch.tensor([[1.0, 2.0, 4.0]], dtype=torch.float64)
    mixed = cross_entropy(logits, torch.tensor([[0.25, 0.0, 0.75]]).double())
    parts = cross_entropy(logits.expand(2, 3), torch.tensor([0, 2]))
    close(mixed, [0.25 * parts[0] + 0.75 * parts[1]])


def test_the_value_is_the_function():
    outputs, targets = torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])
    expected = cross_entropy(outputs, targets, 0.2)
    assert torch.equal(CrossEntropy(0.2)(outputs, targets), expected)
    short = targets.to(torch.int32)
    assert torch.equal(cross_entropy(outputs, short, 0.2), expected)


NUMBERS = st.floats(-5, 5, allow_nan=False)


def rows_of(size):
    return st.lists(st.lists(NUMBERS, min_size=size, max_size=size), min_size=1)


@modest
@given(rows_of(3), st.randoms())
def test_binary_cross_entropy_is_the_mean_over_labels(rows, random):
    truth = [[random.randint(0, 1) for _ in row] for row in rows]
    expected = [
        sum(
            math.log1p(math.exp(-z)) if y else math.log1p(math.exp(z))
            for z, y in zip(row, answers, strict=True)
        )
        / len(row)
        for row, answers in zip(rows, truth, strict=True)
    ]
    outputs = torch.tensor(rows, dtype=torch.float64)
    close(binary_cross_entropy(outputs, torch.tensor(truth)), expected, atol=1e-9)


@modest
@given(rows_of(4), rows_of(2))
def test_gaussian_nll_is_that_of_torch(rows, answers):
    count = min(len(rows), len(answers))
    outputs = torch.tensor(rows[:count], dtype=torch.float64)
    targets = torch.tensor(answers[:count], dtype=torch.float64)
    normal = torch.distributions.Normal(
        outputs[:, :2], outputs[:, 2:].clamp(min=math.log(1e-6)).exp().sqrt()
    )
    close(gaussian_nll(outputs, targets), -normal.log_prob(targets).mean(1), atol=1e-9)


@modest
@given(rows_of(4), rows_of(2))
def test_pinball_matches_naive(rows, answers):
    levels, count = (0.1, 0.7), min(len(rows), len(answers))
    expected = [
        sum(
            level * (y - q) if y >= q else (1 - level) * (q - y)
            for place, level in enumerate(levels)
            for number, y in enumerate(answer)
            for q in [row[2 * place + number]]
        )
        / 4
        for row, answer in zip(rows, answers, strict=False)
    ]
    outputs = torch.tensor(rows[:count], dtype=torch.float64)
    targets = torch.tensor(answers[:count], dtype=torch.float64)
    close(pinball(outputs, targets, levels), expected, atol=1e-9)


def test_pixels_are_averaged_and_those_without_a_label_left_out():
    outputs = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    labels = torch.randint(3, (2, 4, 5))
    labels[0, 0] = -100
    rows = outputs.movedim(1, -1).reshape(-1, 3)
    each = cross_entropy(rows, labels.clamp(min=0).flatten()).reshape(2, -1)
    expected = [each[0, 5:].mean(), each[1].mean()]
    close(cross_entropy(outputs, labels), expected)
    soft = F.one_hot(labels.clamp(min=0), 3).movedim(-1, 1).double()
    close(cross_entropy(outputs, soft)[1:], expected[1:])


def test_one_number_may_come_without_its_axis_and_nothing_is_broadcast():
    outputs, targets = torch.randn(5, 1), torch.randn(5)
    outputs, targets = outputs.double(), targets.double()
    for loss, truth in ((MSE(), targets), (BinaryCrossEntropy(), targets > 0)):
        assert loss(outputs, truth).shape == (5,)
        close(loss(outputs, truth), loss(outputs, truth[:, None]))
    assert MSE()(targets, targets).shape == (5,)
    with pytest.raises(ValueError, match=r"shape of the outputs, \(5, 2\), got \(5,\)"):
        MSE()(torch.randn(5, 2), targets)
    with pytest.raises(ValueError, match="mean and a log-variance for each number"):
        GaussianNLL()(torch.randn(5, 3), targets)
    with pytest.raises(ValueError, match="one for each of 3 levels and each number"):
        Quantiles()(torch.randn(5, 4), targets)


@pytest.mark.parametrize(
    ("loss", "task"),
    [
        (CrossEntropy(0.1), "classification"),
        (cross_entropy, "classification"),
        (partial(cross_entropy, label_smoothing=0.1), "classification"),
        (torch.nn.CrossEntropyLoss(reduction="none"), "classification"),
        (partial(F.cross_entropy, reduction="none"), "classification"),
        (BinaryCrossEntropy(), "multi-label"),
        (MSE(), "regression"),
        (GaussianNLL(), "gaussian"),
        (Quantiles((0.1, 0.9)), "quantiles"),
        (lambda outputs, targets: outputs[:, 0], "unknown"),
    ],
)
def test_losses_name_their_task(loss, task):
    assert str(tasks.task_of(loss)) == task


def test_a_file_names_no_task_of_ones_own():
    with pytest.raises(ValueError, match="did you mean 'Classes'"):
        read_task("Clases()")
    with pytest.raises(ValueError, match="type the path of your own code"):
        read_task("os.system('ls')")


@pytest.mark.parametrize("more", [(), (3, 2)])
def test_weights_of_labels_are_those_of_torch(more):
    torch.manual_seed(0)
    outputs = torch.randn(5, 2, *more, dtype=torch.float64)
    targets = (torch.rand(5, 2, *more) > 0.5).double()
    found = BinaryCrossEntropy(positive_weights=(1, 8))(outputs, targets)
    factors = torch.tensor([1.0, 8.0]).double().view(2, *[1] * len(more))
    expected = torch.nn.BCEWithLogitsLoss(pos_weight=factors, reduction="none")
    wanted = expected(outputs, targets).flatten(1).mean(1)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    one = BinaryCrossEntropy(positive_weights=(3.0,))(outputs[:, :1], targets[:, :1])
    assert one.shape == (5,)
