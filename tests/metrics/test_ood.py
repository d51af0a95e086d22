"""Detection scores against scikit-learn, definitions over all pairs, and limits."""

import math
from fractions import Fraction
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor

from strategies import RULES, close, labeled_ensembles, modest
from tepui.metrics import (
    accuracy,
    aupr,
    aurc,
    auroc,
    ensemble_predictions,
    ensemble_probs,
    fpr95,
    rank_correlation,
    ranks,
    selective_curve,
)
from tepui.metrics.ood import _risk_coverage

# A few small whole numbers: ties inside and between both sets.
few = st.lists(st.integers(-3, 3), min_size=1, max_size=25)
many = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=25)
scores = st.one_of(few, many).map(
    lambda values: torch.tensor(values, dtype=torch.float64)
)
MEASURES = (auroc, aupr, fpr95)


def fpr95_naive(negative: list[float], positive: list[float]) -> float:
    rates = []
    for threshold in positive:
        actual = Fraction(sum(p >= threshold for p in positive), len(positive))
        if actual >= Fraction(95, 100):
            false = sum(n >= threshold for n in negative)
            rates.append(Fraction(false, len(negative)))
    return float(min(rates))


def both(in_scores: Tensor, ood_scores: Tensor) -> tuple[np.ndarray, np.ndarray]:
    truth = np.repeat([0, 1], [len(in_scores), len(ood_scores)])
    return truth, torch.cat([in_scores, ood_scores]).numpy()


@modest
@given(scores, scores)
def test_auroc_is_that_of_scikit_learn(in_scores, ood_scores):
    exact = roc_auc_score(*both(in_scores, ood_scores))
    close(auroc(in_scores, ood_scores), exact, atol=1e-9)


@modest
@given(scores, scores)
def test_aupr_is_scikit_learns_average_precision(in_scores, ood_scores):
    out = average_precision_score(*both(in_scores, ood_scores))
    close(aupr(in_scores, ood_scores), out, atol=1e-9)
    inside = average_precision_score(*both(-ood_scores, -in_scores))
    close(aupr(in_scores, ood_scores, positive="in"), inside, atol=1e-9)


@modest
@given(scores, scores)
def test_fpr95_takes_the_strictest_threshold_that_finds_enough(in_scores, ood_scores):
    negative, positive = in_scores.tolist(), ood_scores.tolist()
    close(fpr95(in_scores, ood_scores), fpr95_naive(negative, positive))
    flipped = fpr95_naive([-s for s in positive], [-s for s in negative])
    close(fpr95(in_scores, ood_scores, positive="in"), flipped)


@pytest.mark.parametrize("measure", MEASURES)
def test_bad_scores_are_named(measure):
    good = torch.tensor([0.1, 0.2])
    for bad, said in (
        (good[:0], r"hold at least 1 sample\(s\), got 0"),
        (good[None], r"have shape.*\(1, 2\)"),
        (good.long(), r"be floating point, got torch\.int64"),
        (torch.tensor([0.0, torch.nan, torch.nan]), "not be NaN, got '2 NaN"),
    ):
        with pytest.raises(ValueError, match=f"in_scores must {said}"):
            measure(bad, good)
        with pytest.raises(ValueError, match=f"ood_scores must {said}"):
            measure(good, bad)


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


def test_a_constant_score_has_no_order():
    scores = torch.tensor([1.0, 2.0])
    with pytest.warns(UserWarning, match="rank_correlation is NaN") as log:
        assert math.isnan(rank_correlation(scores, torch.ones(2)))
    assert log[0].filename == __file__


def risks_naive(confidence: list[float], correct: list[bool]) -> list[float]:
    """Mean over all orders that never put a lower confidence first."""
    orders = [
        order
        for order in permutations(range(len(correct)))
        if all(confidence[a] >= confidence[b] for a, b in pairwise(order))
    ]
    risks = [0.0] * len(correct)
    for order in orders:
        for k in range(1, len(correct) + 1):
            risks[k - 1] += sum(not correct[n] for n in order[:k]) / k
    return [risk / len(orders) for risk in risks]


def doubts(logits, rule="probability"):
    """What the largest probability lacks of one, which it may be when rounded."""
    probs = ensemble_probs(logits, rule=rule)
    if rule == "vote":
        return 1 - probs.amax(-1)
    return probs.sort(-1).values[:, :-1].sum(-1)


@modest
@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6))
def test_equal_confidences_enter_in_all_orders_alike(rows):
    confidence, correct = zip(*rows, strict=True)
    actual = _risk_coverage(torch.tensor(confidence).double(), torch.tensor(correct))
    close(actual.risk, risks_naive(list(confidence), list(correct)))


@pytest.mark.parametrize("rule", RULES)
@modest
@given(case=labeled_ensembles())
def test_curve_matches_naive(rule, case):
    logits, labels = case
    confidence = -doubts(logits, rule)
    correct = ensemble_predictions(logits, rule=rule) == labels
    coverage, risk = selective_curve(logits, labels, rule=rule)
    samples = len(labels)
    close(coverage, [(k + 1) / samples for k in range(samples)])
    close(risk, risks_naive(confidence.tolist(), correct.tolist()))
    close(aurc(logits, labels, rule=rule), risk.mean().item())
    close(risk[-1], 1 - accuracy(logits, labels, rule=rule).item())
