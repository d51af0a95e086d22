"""Diversity against loops, an example worked by hand, and limits."""

import math
from itertools import combinations, permutations

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from strategies import RULES, close, ensembles, labeled_ensembles, modest, probs_naive
from tepui.metrics import (
    accuracy,
    der,
    disagreement,
    eir,
    individual_accuracy,
    logit_variance,
    mean_kl,
    nll,
    pairwise_disagreement,
    pairwise_kl,
    pds,
    probability_variance,
    size_curve,
    sub_ensembles,
    unique_predictions,
)

# Rows are members; what they predict and how far its logit stands above the others.
PREDICTED = torch.tensor([[0, 1, 2, 0], [0, 1, 1, 1], [0, 2, 1, 2]])
HEIGHT = torch.tensor([2.0, 2.0, 3.0], dtype=torch.float64)
BY_HAND = torch.nn.functional.one_hot(PREDICTED, 3) * HEIGHT[:, None, None]
LABELS = torch.tensor([0, 1, 2, 2])


def predicted_naive(logits: Tensor) -> list[list[int]]:
    return [[row.index(max(row)) for row in member] for member in logits.tolist()]


def disagreement_naive(first: list[int], second: list[int]) -> float:
    return sum(a != b for a, b in zip(first, second, strict=True)) / len(first)


def kl_naive(first: list[list[float]], second: list[list[float]]) -> float:
    total = 0.0
    for p_row, q_row in zip(first, second, strict=True):
        for p, q in zip(p_row, q_row, strict=True):
            total += p * (math.log(p) - math.log(q))
    return total / len(first)


def variance_naive(outputs: list[list[list[float]]]) -> float:
    members, samples, total = len(outputs), len(outputs[0]), 0.0
    for n in range(samples):
        for c in range(len(outputs[0][0])):
            values = [member[n][c] for member in outputs]
            mean = sum(values) / members
            total += sum((value - mean) ** 2 for value in values) / (members - 1)
    return total / samples


def mean_error_naive(logits: Tensor, labels: Tensor) -> float:
    rows = predicted_naive(logits)
    return sum(disagreement_naive(row, labels.tolist()) for row in rows) / len(rows)


def test_example_by_hand():
    halves = [[0, 1 / 2, 3 / 4], [1 / 2, 0, 1 / 2], [3 / 4, 1 / 2, 0]]
    close(pairwise_disagreement(BY_HAND), halves)
    close(disagreement(BY_HAND), 7 / 12)
    close(der(BY_HAND, LABELS), (7 / 12) / (5 / 12))
    close(eir(BY_HAND, LABELS, rule="vote"), (5 / 12 - 1 / 4) / (5 / 12))
    close(logit_variance(BY_HAND), (1 / 3 + 13 / 3 + 11 / 3 + 17 / 3) / 4)
    close(unique_predictions(BY_HAND), (1 + 2 + 2 + 3) / 4)


@modest
@given(logits=ensembles(min_members=2))
def test_disagreement_matches_naive(logits):
    rows = predicted_naive(logits)
    matrix = [[disagreement_naive(a, b) for b in rows] for a in rows]
    close(pairwise_disagreement(logits), matrix)
    pairs = [disagreement_naive(a, b) for a, b in combinations(rows, 2)]
    close(disagreement(logits), sum(pairs) / len(pairs))


@modest
@given(case=labeled_ensembles(min_members=2))
def test_der_matches_naive_and_is_at_most_two(case):
    logits, labels = case
    error = mean_error_naive(logits, labels)
    assume(error > 0)
    pairs = list(combinations(predicted_naive(logits), 2))
    mean = sum(disagreement_naive(a, b) for a, b in pairs) / len(pairs)
    close(der(logits, labels), mean / error)
    assert der(logits, labels) <= 2 + 1e-12


@pytest.mark.parametrize("rule", RULES)
@modest
@given(case=labeled_ensembles())
def test_eir_matches_naive(rule, case):
    logits, labels = case
    error = mean_error_naive(logits, labels)
    assume(error > 0)
    joint = 1 - accuracy(logits, labels, rule=rule).item()
    close(eir(logits, labels, rule=rule), (error - joint) / error)


@modest
@given(logits=ensembles(min_members=2))
def test_variance_matches_naive(logits):
    close(logit_variance(logits), variance_naive(logits.tolist()))
    close(probability_variance(logits), variance_naive(probs_naive(logits)))


@modest
@given(logits=ensembles(min_members=2))
def test_kl_matches_naive(logits):
    probs = probs_naive(logits)
    close(pairwise_kl(logits), [[kl_naive(p, q) for q in probs] for p in probs])
    ordered = [kl_naive(p, q) for p, q in permutations(probs, 2)]
    close(mean_kl(logits), sum(ordered) / len(ordered))
    both = [kl_naive(p, q) + kl_naive(q, p) for p, q in combinations(probs, 2)]
    close(mean_kl(logits, symmetric=True), sum(both) / len(both))


@modest
@given(logits=ensembles())
def test_unique_predictions_match_naive(logits):
    columns = list(zip(*predicted_naive(logits), strict=True))
    close(unique_predictions(logits), sum(len(set(c)) for c in columns) / len(columns))


@modest
@given(case=labeled_ensembles(), copies=st.integers(2, 6))
def test_identical_members_have_no_diversity(case, copies):
    logits, labels = case[0][:1].expand(copies, -1, -1), case[1]
    assert disagreement(logits) == 0
    assert logit_variance(logits) == 0
    assert probability_variance(logits) == 0
    assert mean_kl(logits) == 0
    assert unique_predictions(logits) == 1
    assume(mean_error_naive(logits, labels) > 0)
    assert der(logits, labels) == 0
    assert all(eir(logits, labels, rule=rule) == 0 for rule in RULES)


@modest
@given(logits=ensembles())
def test_sure_members_make_pds_count_the_predictions(logits):
    sure = torch.zeros_like(logits)
    sure.scatter_(2, logits.argmax(2, keepdim=True), 1e4)
    close(logits.shape[2] * pds(sure).mean(), unique_predictions(logits))


@modest
@given(logits=ensembles())
def test_a_shift_of_one_members_logits_moves_only_the_variance_of_logits(logits):
    shifted = torch.stack([logits[0], logits[0] + 3.0])
    close(logit_variance(shifted), logits.shape[2] * 3.0**2 / 2)
    close(probability_variance(shifted), 0.0)
    close(mean_kl(shifted), 0.0)
    assert disagreement(shifted) == 0


def test_variance_of_large_float32_logits_does_not_cancel():
    small = torch.randn(4, 20, 10, generator=torch.Generator().manual_seed(0))
    logits = (2.0**13 + small).round(decimals=2)
    assert logit_variance(logits) == pytest.approx(
        logit_variance(logits.double()).item(), rel=1e-5
    )


def test_kl_of_nearly_equal_float32_members_is_not_negative():
    first = torch.randn(1, 50, 100, generator=torch.Generator().manual_seed(0))
    matrix = pairwise_kl(torch.cat([first, first + 1e-7, first - 1e-7]))
    assert matrix.min() >= 0


def test_kl_of_saturated_float32_members_is_finite():
    logits = torch.tensor([[[500.0, 0.0]], [[0.0, 500.0]]])
    assert mean_kl(logits) == 500


def test_an_ensemble_that_errs_more_than_its_members_has_negative_eir():
    # Two members are barely right, one is surely wrong.
    logits = torch.tensor([[[1.0, 0.0]], [[1.0, 0.0]], [[0.0, 9.0]]])
    assert eir(logits, torch.tensor([0])) == pytest.approx((1 / 3 - 1) / (1 / 3))


@pytest.mark.parametrize("metric", [der, eir])
def test_without_errors_the_ratio_is_nan_and_says_so(metric):
    logits = torch.tensor([[[1.0, 0.0]], [[1.0, 0.0]]])
    with pytest.warns(UserWarning, match=f"{metric.__name__} is NaN: no member") as log:
        assert math.isnan(metric(logits, torch.tensor([0])))
    assert log[0].filename == __file__


@modest
@given(case=labeled_ensembles(min_members=2))
def test_curve_matches_naive(case):
    logits, labels = case
    members = len(logits)
    curve = size_curve(nll, logits, labels)
    assert curve.size.tolist() == list(range(1, members + 1))
    for index, size in enumerate(curve.size.tolist()):
        values = [
            nll(logits[list(some)], labels).item()
            for some in combinations(range(members), size)
        ]
        mean = sum(values) / len(values)
        assert curve.count[index] == len(values)
        close(curve.mean[index], mean)
        squares = sum((value - mean) ** 2 for value in values)
        spread = math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else math.nan
        close(curve.deviation[index], spread, atol=1e-7)


@modest
@given(case=labeled_ensembles(min_members=2))
def test_sub_ensembles_are_consistent_with_the_whole(case):
    logits, labels = case
    curve = size_curve(accuracy, logits, labels)
    close(curve.mean[0], individual_accuracy(logits, labels).mean().item())
    assert curve.mean[-1] == accuracy(logits, labels)
    # The mean over pairs is the mean over all sub-ensembles' means over pairs.
    sizes = range(2, len(logits) + 1)
    pairs = size_curve(disagreement, logits, sizes=sizes)
    close(pairs.mean, [disagreement(logits).item()] * len(sizes))
    some = list(range(len(logits) - 1))
    matrix = pairwise_disagreement(logits)[some][:, some]
    if len(some) > 1:
        assert torch.equal(pairwise_disagreement(logits[some]), matrix)


@given(st.integers(1, 8), st.data())
def test_all_sub_ensembles_where_they_are_few(members, data):
    size = data.draw(st.integers(1, members))
    assert sub_ensembles(members, size) == list(combinations(range(members), size))


def test_a_sample_where_they_are_many():
    some = sub_ensembles(30, 4, limit=50, seed=1)
    assert len(set(some)) == 50
    assert all(list(subset) == sorted(set(subset)) for subset in some)
    assert {member for subset in some for member in subset} == set(range(30))
    assert some == sub_ensembles(30, 4, limit=50, seed=1)
    assert some != sub_ensembles(30, 4, limit=50, seed=2)
    state = torch.get_rng_state()
    sub_ensembles(30, 4, limit=50)
    assert torch.equal(torch.get_rng_state(), state)


def test_bad_input_is_named():
    logits, labels = torch.zeros(3, 2, 2), torch.tensor([0, 1])
    with pytest.raises(ValueError, match=r"size must lie in \[1, 3\], got 4"):
        size_curve(accuracy, logits, labels, sizes=[4])
    with pytest.raises(ValueError, match="sizes must hold at least one size"):
        size_curve(accuracy, logits, labels, sizes=[])
    with pytest.raises(ValueError, match="limit must be at least 1, got 0"):
        size_curve(accuracy, logits, labels, limit=0)
    with pytest.raises(ValueError, match=r"metric must return a scalar, got \(1,\)"):
        size_curve(individual_accuracy, logits, labels, sizes=[1])
    with pytest.raises(ValueError, match=r"at least 2 member\(s\)"):
        size_curve(disagreement, logits)
