import math
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tepui.experiments import estimate, estimate_pairs, tradeoff_slope
from tepui.metrics import disagreement, pairwise_disagreement, pairwise_kl

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
    # Members' means: 0.15, 0.35, 0.4; pairs: 0.1, 0.2, 0.6.
    matrix = [[9.0, 0.1, 0.2], [0.1, 9.0, 0.6], [0.2, 0.6, 9.0]]
    over_members, over_pairs = estimate_pairs(matrix), estimate_pairs(matrix, "pairs")
    assert over_members.mean == pytest.approx(0.3)
    assert over_members.error == pytest.approx(stats.sem([0.15, 0.35, 0.4]))
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
