"""Calibration against loops, scikit-learn and torchmetrics."""

import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor
from torchmetrics.functional.classification import multiclass_calibration_error

from strategies import RULES, close, labeled_ensembles, modest
from tepui.metrics import (
    adaptive_ece,
    brier,
    brier_decomposition,
    ece,
    ensemble_predictions,
    ensemble_probs,
    mce,
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
@given(case=labeled_ensembles())
def test_nll_matches_naive(rule, case):
    logits, labels = case
    probs = ensemble_probs(logits, rule=rule).tolist()
    diagram = [row[y] for row, y in zip(probs, labels.tolist(), strict=True)]
    logs = [math.log(p) if p > 0 else -math.inf for p in diagram]
    close(nll(logits, labels, rule=rule), -sum(logs) / len(diagram))


@pytest.mark.parametrize("rule", RULES)
@modest
@given(case=labeled_ensembles())
def test_brier_matches_naive(rule, case):
    logits, labels = case
    total, probs = 0.0, ensemble_probs(logits, rule=rule).tolist()
    for row, y in zip(probs, labels.tolist(), strict=True):
        total += sum((p - (c == y)) ** 2 for c, p in enumerate(row))
    close(brier(logits, labels, rule=rule), total / len(labels))


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


def test_torchmetrics_counts_certainty_apart_and_the_default_does_not():
    # Confidences 1 (wrong) and 0.95 (right): one bin of 15, or one bin each.
    probs = torch.tensor([[[1.0, 0.0], [0.95, 0.05]]], dtype=torch.float64)
    logits, labels = (probs + 1e-30).log(), torch.tensor([1, 0])
    assert ensemble_probs(logits)[0, 0] == 1
    close(ece(logits, labels), abs(0.5 - 0.975))
    close(ece(logits, labels, torchmetrics_bins=True), 0.5 * 1 + 0.5 * 0.05)
    expected = multiclass_calibration_error(probs[0], labels, 2, 15, norm="l1").double()
    close(ece(logits, labels, torchmetrics_bins=True), expected, atol=1e-7)


def test_torchmetrics_rounds_float64_confidences_before_binning():
    # 1 - 1e-9 (wrong) is one in float32 and so leaves the bin of 0.95 (right).
    probs = torch.tensor([[1 - 1e-9, 1e-9], [0.95, 0.05]], dtype=torch.float64)
    labels = torch.tensor([1, 0])
    expected = multiclass_calibration_error(probs, labels, 2, 15, norm="l1").double()
    actual = ece(probs.log().unsqueeze(0), labels, torchmetrics_bins=True)
    close(actual, expected, atol=1e-7)
    close(actual, 0.5 * 1 + 0.5 * 0.05, atol=1e-7)


def test_without_certain_samples_both_ways_of_binning_agree():
    logits, labels = random_case()
    assert ensemble_probs(logits).max() < 1
    close(ece(logits, labels, torchmetrics_bins=True), ece(logits, labels))


def test_bins_are_closed_on_the_left():
    count = reliability(torch.zeros(1, 1, 2), torch.tensor([0]), num_bins=2).count
    assert count.tolist() == [0, 1]


def test_an_empty_bin_has_no_mean_and_no_weight():
    diagram = reliability(torch.zeros(1, 1, 2), torch.tensor([0]), num_bins=2)
    assert math.isnan(diagram.confidence[0])
    assert math.isnan(diagram.accuracy[0])
    assert (diagram.confidence[1], diagram.accuracy[1]) == (0.5, 1.0)
    assert ece(torch.zeros(1, 1, 2), torch.tensor([0]), num_bins=2) == 0.5


def test_a_calibrated_ensemble_has_no_calibration_error():
    # 75 % sure of class 0 and right three times in four.
    logits = torch.tensor([0.75, 0.25]).log().expand(1, 4, 2).double()
    close(ece(logits, torch.tensor([0, 0, 0, 1])), 0.0, atol=1e-7)


def test_a_label_without_a_vote_has_infinite_nll_only_for_vote():
    logits, labels = torch.tensor([[[3.0, 0.0]]]), torch.tensor([1])
    assert nll(logits, labels, rule="vote") == math.inf
    assert nll(logits, labels) == pytest.approx(math.log(1 + math.exp(3)))


def test_nll_is_finite_where_float32_probabilities_vanish():
    logits = torch.tensor([[[0.0, 1e4]], [[0.0, 1e4]]])
    assert nll(logits, torch.tensor([0])) == 1e4
    assert nll(logits, torch.tensor([0]), rule="logit") == 1e4


def test_brier_reaches_both_ends_of_its_range():
    logits = torch.tensor([[[0.0, 99.0]]])
    assert brier(logits, torch.tensor([1])) == 0
    assert brier(logits, torch.tensor([0])) == 2


@pytest.mark.parametrize("metric", [ece, mce, reliability, brier_decomposition])
def test_bins_must_be_positive(metric):
    with pytest.raises(ValueError, match="num_bins must be at least 1, got 0"):
        metric(torch.zeros(1, 1, 2), torch.tensor([0]), num_bins=0)


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


def classwise_naive(logits, labels, rule, bins, rows_naive):
    probs = ensemble_probs(logits, rule=rule)
    gaps = []
    for c in range(logits.shape[2]):
        hits = (labels == c).tolist()
        gaps.append(gap_naive(rows_naive(probs[:, c].tolist(), hits, bins)))
    return sum(gaps) / len(gaps)


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
    widest = max(abs(hit - mean) for n, mean, hit in rows if n)
    close(mce(logits, labels, **options), widest)


@pytest.mark.parametrize("rule", RULES)
@modest
@given(case=labeled_ensembles(), bins=st.integers(1, 20))
def test_classwise_ece_matches_naive(rule, case, bins):
    logits, labels = case
    options = {"num_bins": bins, "rule": rule, "scope": "classwise"}
    expected = classwise_naive(logits, labels, rule, bins, reliability_naive)
    close(ece(logits, labels, **options), expected)
    expected = classwise_naive(logits, labels, rule, bins, mass_bins_naive)
    close(ece(logits, labels, binning="equal_mass", **options), expected)


@modest
@given(case=labeled_ensembles(), bins=st.integers(1, 20))
def test_mce_is_that_of_torchmetrics_where_nothing_is_certain(case, bins):
    logits, labels = case[0].clamp(-5, 5), case[1]
    probs, classes = ensemble_probs(logits), logits.shape[2]
    assume(probs.max() < 0.999)
    expected = multiclass_calibration_error(probs, labels, classes, bins, norm="max")
    assert mce(logits, labels, num_bins=bins).item() == pytest.approx(
        expected.item(), abs=1e-5
    )


def test_equal_confidences_share_a_bin_of_equal_mass():
    logits = torch.tensor([[0.75, 0.25]] * 6 + [[0.99, 0.01]] * 2).log()[None]
    diagram = reliability(
        logits, torch.zeros(8, dtype=torch.int64), num_bins=4, binning="equal_mass"
    )
    assert diagram.count.tolist() == [0, 0, 6, 2]


def test_many_bins_and_many_classes_in_class_bins():
    logits, labels = random_case(samples=50, classes=40, scale=6.0)
    for bins in (1, 3, 39, 40, 41, 100):
        expected = classwise_naive(
            logits, labels, "probability", bins, reliability_naive
        )
        close(ece(logits, labels, num_bins=bins, scope="classwise"), expected)


def test_unknown_bins_list_the_known():
    logits, labels = random_case(samples=3)
    with pytest.raises(
        ValueError, match="binning must be one of equal_width, equal_mas"
    ):
        ece(logits, labels, binning="equal")
    with pytest.raises(
        ValueError, match="scope must be one of top_1, classwise, got 'top'"
    ):
        ece(logits, labels, scope="top")
    with pytest.raises(ValueError, match="torchmetrics_bins must go with binning="):
        ece(logits, labels, scope="classwise", torchmetrics_bins=True)


@modest
@given(labeled_ensembles(), st.integers(1, 9))
def test_adaptive_ece_is_that_of_bins_of_equal_mass(case, bins):
    logits, labels = case
    bin_of_each = reliability(logits, labels, num_bins=bins, binning="equal_mass")
    gaps = (bin_of_each.accuracy - bin_of_each.confidence).abs().nan_to_num()
    expected = (bin_of_each.count * gaps).sum() / len(labels)
    close(adaptive_ece(logits, labels, num_bins=bins), expected)
