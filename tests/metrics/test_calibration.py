"""Calibration against loops, scikit-learn and torchmetrics."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torchmetrics.functional.classification import multiclass_calibration_error

from strategies import RULES, close, labeled_ensembles, modest
from tepui.metrics import (
    ece,
    ensemble_predictions,
    ensemble_probs,
    nll,
    reliability,
)


def confidences(logits: Tensor, labels: Tensor, rule: str = "probability"):
    """Confidence and correctness; the probabilities have a twin of their own."""
    probs = ensemble_probs(logits, rule=rule).amax(1)
    return probs.tolist(), (ensemble_predictions(logits, rule=rule) == labels).tolist()


def reliability_naive(confidence, correct, bins):
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64).tolist()
    rows = []
    for b in range(bins):
        low, high = edges[b], math.inf if b == bins - 1 else edges[b + 1]
        inside = [n for n, value in enumerate(confidence) if low <= value < high]
        size = len(inside) or math.nan
        mean = sum(confidence[n] for n in inside) / size
        rows.append((len(inside), mean, sum(correct[n] for n in inside) / size))
    return rows


def ece_naive(confidence, correct, bins):
    return sum(
        count / len(correct) * abs(hit - mean)
        for count, mean, hit in reliability_naive(confidence, correct, bins)
        if count
    )


def random_case(samples: int = 500, classes: int = 4, scale: float = 2.0):
    generator = torch.Generator().manual_seed(3)
    logits = scale * torch.randn(3, samples, classes, generator=generator).double()
    return logits, torch.randint(classes, (samples,), generator=generator)


@pytest.mark.parametrize("rule", RULES)
@modest
@given(case=labeled_ensembles(), bins=st.integers(1, 20))
def test_reliability_and_ece_match_naive(rule, case, bins):
    logits, labels = case
    confidence, correct = confidences(logits, labels, rule)
    count, mean, hit = reliability(logits, labels, num_bins=bins, rule=rule)
    expected = zip(*reliability_naive(confidence, correct, bins), strict=True)
    for actual, column in zip((count.double(), mean, hit), expected, strict=True):
        close(actual, column)
    value = ece(logits, labels, num_bins=bins, rule=rule)
    close(value, ece_naive(confidence, correct, bins))


@pytest.mark.parametrize("rule", ["probability", "logit"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@modest
@given(case=labeled_ensembles(), bins=st.integers(1, 20))
def test_ece_with_torchmetrics_bins_is_that_of_torchmetrics(rule, dtype, case, bins):
    logits, labels = case[0].to(dtype), case[1]
    probs, classes = ensemble_probs(logits, rule=rule), logits.shape[2]
    expected = multiclass_calibration_error(probs, labels, classes, bins, norm="l1")
    actual = ece(logits, labels, num_bins=bins, rule=rule, torchmetrics_bins=True)
    torch.testing.assert_close(actual, expected.to(dtype), rtol=1e-5, atol=1e-6)


def test_a_label_without_a_vote_has_infinite_nll_only_for_vote():
    logits, labels = torch.tensor([[[3.0, 0.0]]]), torch.tensor([1])
    assert nll(logits, labels, rule="vote") == math.inf
    assert nll(logits, labels) == pytest.approx(math.log(1 + math.exp(3)))


def mass_bins_naive(values, hits, bins):
    """Bins that start at every N/bins-th value; equal values share the last of them."""
    starts = [sorted(values)[b * len(values) // bins] for b in range(bins)]
    rows = [[0, 0.0, 0] for _ in range(bins)]
    for value, hit in zip(values, hits, strict=True):
        row = rows[max(b for b in range(bins) if starts[b] <= value)]
        row[0], row[1], row[2] = row[0] + 1, row[1] + value, row[2] + hit
    return [
        (n, total / (n or math.nan), hit / (n or math.nan)) for n, total, hit in rows
    ]


def gap_naive(rows):
    samples = sum(count for count, _, _ in rows)
    return sum(n / samples * abs(hit - mean) for n, mean, hit in rows if n)


@pytest.mark.parametrize("rule", RULES)
@modest
@given(case=labeled_ensembles(), bins=st.integers(1, 20))
def test_bins_of_equal_mass_match_naive(rule, case, bins):
    logits, labels = case
    options = {"num_bins": bins, "rule": rule, "binning": "equal_mass"}
    rows = mass_bins_naive(*confidences(logits, labels, rule), bins)
    result = reliability(logits, labels, **options)
    for actual, column in zip(result, zip(*rows, strict=True), strict=True):
        close(actual.double(), column)
    close(ece(logits, labels, **options), gap_naive(rows))


def test_unknown_bins_list_the_known():
    logits, labels = random_case(samples=3)
    with pytest.raises(
        ValueError, match="binning must be one of equal_width, equal_mas"
    ):
        ece(logits, labels, binning="equal")
    with pytest.raises(ValueError, match="torchmetrics_bins must go with binning="):
        ece(logits, labels, binning="equal_mass", torchmetrics_bins=True)


def test_nll_is_finite_where_float32_probabilities_vanish():
    logits = torch.tensor([[[0.0, 1e4]], [[0.0, 1e4]]])
    assert nll(logits, torch.tensor([0])) == 1e4
    assert nll(logits, torch.tensor([0]), rule="logit") == 1e4
