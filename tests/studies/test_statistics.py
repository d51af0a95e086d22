import math
import statistics
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from tepui.metrics import disagreement, pairwise_disagreement, pairwise_kl
from tepui.studies import (
    crossed_difference,
    differences,
    estimate,
    estimate_pairs,
    holm,
    paired_difference,
    tradeoff_slope,
)

VALUES = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12)


@given(VALUES)
def test_error_is_scipys_standard_error_of_the_mean(values):
    found = estimate(values)
    assert found.error == pytest.approx(stats.sem(values), rel=1e-9, abs=1e-9)
    assert found.mean == pytest.approx(sum(values) / len(values), abs=1e-9)
    assert found.count == len(values)


def test_one_value_has_no_error():
    found = estimate([3.0])
    assert found.mean == 3.0
    assert math.isnan(found.error)


@pytest.mark.parametrize("missing", [None, math.nan])
def test_undefined_values_are_left_out(missing):
    assert estimate([1.0, missing, 3.0]) == estimate([1.0, 3.0])


def test_no_value_at_all_is_not_a_number():
    assert math.isnan(estimate([None]).mean)
    assert estimate([]).count == 0


def test_pairs_of_members_by_hand():
    # Without one member: 0.6, 0.2, 0.1; pairs: 0.1, 0.2, 0.6.
    matrix = [[9.0, 0.1, 0.2], [0.1, 9.0, 0.6], [0.2, 0.6, 9.0]]
    over_members, over_pairs = estimate_pairs(matrix), estimate_pairs(matrix, "pairs")
    assert over_members.mean == pytest.approx(0.3)
    left = [3 * 0.3 - 2 * 0.6, 3 * 0.3 - 2 * 0.2, 3 * 0.3 - 2 * 0.1]
    assert over_members.error == pytest.approx(stats.sem(left))
    assert over_pairs.mean == pytest.approx(0.3)
    assert over_pairs.error == pytest.approx(stats.sem([0.1, 0.2, 0.6]))
    assert (over_members.count, over_pairs.count) == (3, 3)


def test_pairs_of_ten_members_have_the_mean_of_the_metric():
    logits = torch.randn(10, 50, 3, generator=torch.Generator().manual_seed(0)).double()
    matrix = pairwise_disagreement(logits)
    for over, count in (("members", 10), ("pairs", 45)):
        found = estimate_pairs(matrix, over)
        assert found.mean == pytest.approx(disagreement(logits).item())
        assert found.count == count
    kl = pairwise_kl(logits)
    both = [(kl[i, j] + kl[j, i]).item() / 2 for i, j in combinations(range(10), 2)]
    assert estimate_pairs(kl, "pairs").error == pytest.approx(stats.sem(both))


def test_the_error_over_members_is_the_spread_of_the_mean_over_pairs():
    # Value of a pair: the mean of two members' own numbers, so that the spread over
    # repetitions of the mean over pairs is known.
    draws = torch.randn(4000, 8, generator=torch.Generator().manual_seed(1)).double()
    pairs = (draws[:, :, None] + draws[:, None, :]) / 2
    found = [estimate_pairs(matrix) for matrix in pairs[:400]]
    true = 1 / math.sqrt(8)
    spread = statistics.stdev(each.mean for each in found)
    assert spread == pytest.approx(true, rel=0.1)
    squared = [each.error**2 for each in found]
    assert statistics.fmean(squared) == pytest.approx(true**2, rel=0.1)


def test_two_members_have_no_known_error():
    found = estimate_pairs([[0.0, 0.2], [0.4, 0.0]])
    assert found.mean == pytest.approx(0.3)
    assert math.isnan(found.error)


def test_bad_matrices_are_named():
    with pytest.raises(ValueError, match=r"matrix must be square.*got \(2, 3\)"):
        estimate_pairs([[0.0, 1.0, 2.0], [1.0, 0.0, 2.0]])
    with pytest.raises(ValueError, match=r"matrix must be square.*got \(1, 1\)"):
        estimate_pairs([[0.0]])
    with pytest.raises(ValueError, match="over must be one of members, pairs"):
        estimate_pairs([[0.0, 1.0], [1.0, 0.0]], over="pair")


@given(st.floats(-3, 3), st.floats(-2, 2))
def test_a_planted_slope_is_recovered(slope, height):
    sharpness = [0.01, 0.1, 0.5, 2.0, 30.0]
    diversity = [math.exp(height) * value**slope for value in sharpness]
    line = tradeoff_slope(sharpness, diversity)
    assert line.slope == pytest.approx(slope, abs=1e-9)
    assert line.intercept == pytest.approx(height, abs=1e-9)
    assert line.low <= line.slope <= line.high
    assert line.high - line.low < 1e-6


def test_the_interval_is_students():
    rng = np.random.default_rng(0)
    x = np.exp(rng.normal(size=9))
    y = np.exp(0.7 * np.log(x) + 0.1 * rng.normal(size=9))
    line = tradeoff_slope(x.tolist(), y.tolist(), confidence=0.9)
    expected = stats.linregress(np.log(x), np.log(y))
    reach = stats.t.ppf(0.95, 7) * expected.stderr
    ends = expected.slope - reach, expected.slope + reach
    assert line.slope == pytest.approx(expected.slope)
    assert line.intercept == pytest.approx(expected.intercept)
    assert (line.low, line.high) == pytest.approx(ends)
    assert line.count == 9


def test_the_interval_covers_the_slope_as_often_as_it_says():
    rng = np.random.default_rng(1)
    x = np.exp(np.linspace(-1, 1, 6))
    covered = 0
    for _ in range(400):
        y = np.exp(np.log(x) + rng.normal(size=6))
        line = tradeoff_slope(x.tolist(), y.tolist(), confidence=0.8)
        covered += line.low <= 1 <= line.high
    assert 0.74 < covered / 400 < 0.86


def test_values_themselves_can_be_fitted():
    line = tradeoff_slope([0.0, 1.0, 2.0], [-1.0, 1.0, 3.0], log=False)
    assert (line.slope, line.intercept) == pytest.approx((2.0, -1.0))


def test_two_points_have_an_unbounded_interval():
    line = tradeoff_slope([1.0, 2.0], [1.0, 4.0])
    assert line.slope == pytest.approx(2.0)
    assert (line.low, line.high) == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("sharpness", "diversity", "message"),
    [
        ([1.0], [1.0], "sharpness must hold at least two values"),
        ([1.0, 2.0], [1.0], "diversity must hold 2 values, got 1"),
        ([1.0, 0.0], [1.0, 2.0], r"sharpness must be finite and positive, got 0\.0"),
        ([1.0, 2.0], [1.0, math.nan], "diversity must be finite and positive, got nan"),
        ([2.0, 2.0], [1.0, 2.0], "sharpness must hold different values"),
    ],
)
def test_bad_points_are_named(sharpness, diversity, message):
    with pytest.raises(ValueError, match=message):
        tradeoff_slope(sharpness, diversity)


def naive_holm(values):
    """Reject step by step: the smallest first, each against what is left."""
    left, floor, found = dict(enumerate(values)), 0.0, {}
    while left:
        index = min(left, key=left.get)
        floor = max(floor, min(1.0, left.pop(index) * (len(left) + 1)))
        found[index] = floor
    return [found[index] for index in range(len(values))]


P_VALUES = st.lists(st.floats(0, 1), max_size=8)


@given(P_VALUES)
def test_holm_is_the_stepwise_procedure(values):
    assert holm(values) == pytest.approx(naive_holm(values), abs=1e-15)


@given(P_VALUES)
def test_holm_lies_between_none_and_bonferroni_and_keeps_the_order(values):
    corrected = holm(values)
    for value, found in zip(values, corrected, strict=True):
        assert value <= found <= min(1.0, len(values) * value)
    by_value = [found for _, found in sorted(zip(values, corrected, strict=True))]
    assert by_value == sorted(by_value)


def test_holm_errs_less_often_than_it_says():
    rng = np.random.default_rng(0)
    wrong = sum(min(holm(rng.uniform(size=6).tolist())) <= 0.1 for _ in range(2000))
    assert wrong / 2000 < 0.12


PAIRS = st.lists(st.tuples(st.floats(-50, 50), st.floats(-50, 50)), min_size=2)


@given(PAIRS)
def test_paired_difference_is_scipys(pairs):
    first, second = map(list, zip(*pairs, strict=True))
    spread = np.std(np.subtract(first, second))
    assume(spread > 1e-6)
    found = paired_difference(first, second, confidence=0.9)
    expected = stats.ttest_rel(first, second)
    interval = expected.confidence_interval(0.9)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.mean == pytest.approx(np.mean(first) - np.mean(second), abs=1e-9)
    assert found.count == len(pairs)


@given(PAIRS, st.floats(-20, 20))
def test_what_a_seed_does_to_both_cancels(pairs, shift):
    first, second = map(list, zip(*pairs, strict=True))
    assume(np.std(np.subtract(first, second)) > 1e-3)
    plain = paired_difference(first, second)
    moved = paired_difference([a + shift for a in first], [b + shift for b in second])
    turned = paired_difference(second, first)
    assert moved.p == pytest.approx(plain.p, rel=1e-4)
    assert turned.mean == pytest.approx(-plain.mean, abs=1e-9)
    assert (turned.low, turned.high) == pytest.approx((-plain.high, -plain.low))


def test_pairs_with_an_undefined_value_are_left_out():
    assert differences([1.0, None, math.nan, 5.0], [0.5, 1.0, 1.0, 1.0]) == [0.5, 4.0]
    assert paired_difference([1.0, None, 3.0], [0.0, 9.0, 1.0]).count == 2


def test_equal_differences_have_no_spread():
    found = paired_difference([2.0, 3.0], [1.0, 2.0])
    assert (found.low, found.high, found.p) == (1.0, 1.0, 0.0)
    assert paired_difference([2.0, 3.0], [2.0, 3.0]).p == 1.0


VARIED = st.lists(st.integers(-9, 9), min_size=3, max_size=8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: holm([0.5, 1.5]), r"p_values must lie between 0 and 1, got 1\.5"),
        (lambda: differences([1.0], []), "second must hold 1 values, got 0"),
        (lambda: paired_difference([1.0], [2.0]), "second must have at least two p"),
    ],
)
def test_bad_tests_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def variances_naive(values):
    """Return the variances of the mean by seeds with noise, and by samples only."""
    seeds, samples = values.shape
    by_seed, by_sample = values.mean(1), values.mean(0)
    rest = values - by_seed[:, None] - by_sample[None] + values.mean()
    noise = (rest**2).sum() / ((seeds - 1) * (samples - 1))
    of_samples = by_sample.var(ddof=1) / samples - noise / (seeds * samples)
    return by_seed.var(ddof=1) / seeds, max(0.0, of_samples)


@pytest.mark.parametrize("own", [0.0, 2.0])
@pytest.mark.parametrize("seeds", [3, 7])
def test_an_interval_over_seeds_and_samples_is_both_students_intervals(seeds, own):
    draw = np.random.default_rng(seeds)
    values = 0.3 + draw.normal(size=(seeds, 1)) + own * draw.normal(size=(1, 400))
    values = values + draw.normal(size=(seeds, 400))
    found = crossed_difference(torch.tensor(values), confidence=0.9)
    quantiles = stats.t.ppf(0.95, [seeds - 1, 399])
    expected = math.sqrt(np.dot(quantiles**2, variances_naive(values)))
    assert found.mean == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx(
        (values.mean() - expected, values.mean() + expected)
    )
    again = crossed_difference(torch.tensor(values), confidence=1 - found.p)
    assert min(abs(again.low), abs(again.high)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("shape", [(1, 400), (2, 400), (3, 299)])
def test_few_seeds_or_samples_have_a_difference_and_no_interval(shape):
    found = crossed_difference(torch.ones(shape))
    assert (found.mean, found.p, found.count) == (1.0, 1.0, shape[0])
    assert math.isnan(found.low)
    assert not found.apart


def test_a_difference_of_zero_is_not_apart():
    found = crossed_difference(torch.zeros(3, 300))
    assert (found.low, found.high, found.p) == (0.0, 0.0, 1.0)
