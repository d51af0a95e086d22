"""Rank correlation against scipy."""

import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from strategies import close, modest
from tepui.metrics import rank_correlation, ranks

pairs = st.lists(
    st.tuples(st.integers(-3, 3), st.floats(-1e6, 1e6)), min_size=2, max_size=25
)


@modest
@given(pairs)
def test_matches_scipy(rows):
    first, second = torch.tensor(rows, dtype=torch.float64).T.contiguous()
    close(ranks(first), stats.rankdata(first.numpy()))
    assume(len(set(first.tolist())) > 1)
    assume(len(set(second.tolist())) > 1)
    actual = rank_correlation(first, second)
    close(actual, stats.spearmanr(first, second).statistic)
    close(rank_correlation(second, first), actual)
    close(rank_correlation(first, -second), -actual)


def test_ends_of_the_range():
    scores = torch.tensor([3.0, 9.0, 1.0, 9.0, 2.0, 9.0, 2.5])[::2]
    assert rank_correlation(scores, scores.exp()) == 1
    assert rank_correlation(scores, -scores) == -1
    assert rank_correlation(scores, scores).dtype == torch.float32


def test_a_constant_score_has_no_order():
    scores = torch.tensor([1.0, 2.0])
    with pytest.warns(UserWarning, match="rank_correlation is NaN") as log:
        assert math.isnan(rank_correlation(scores, torch.ones(2)))
    assert log[0].filename == __file__


def test_bad_scores_are_named():
    scores = torch.tensor([1.0, 2.0])
    with pytest.raises(ValueError, match="second must hold 2 samples, got 1"):
        rank_correlation(scores, scores[:1])
    with pytest.raises(ValueError, match="first must hold at least two samples, got 1"):
        rank_correlation(scores[:1], scores[:1])
    with pytest.raises(ValueError, match="second must not be NaN"):
        rank_correlation(scores, torch.tensor([1.0, torch.nan]))
    with pytest.raises(ValueError, match="scores must hold at least one sample"):
        ranks(scores[:0])
