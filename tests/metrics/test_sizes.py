"""Sub-ensembles: all of them, or a sample that depends on the seed alone."""

import math
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import close, labeled_ensembles, modest
from tepui.metrics import (
    accuracy,
    disagreement,
    individual_accuracy,
    nll,
    pairwise_disagreement,
    size_curve,
    sub_ensembles,
)


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
