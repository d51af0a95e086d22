"""Selective classification against its definition."""

from itertools import pairwise, permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import RULES, close, labeled_ensembles, modest
from tepui.metrics import (
    accuracy,
    aurc,
    ensemble_predictions,
    ensemble_probs,
    selective_curve,
)
from tepui.metrics.selective import _risk_coverage


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
    confidence = ensemble_probs(logits, rule=rule).amax(1)
    correct = ensemble_predictions(logits, rule=rule) == labels
    coverage, risk = selective_curve(logits, labels, rule=rule)
    samples = len(labels)
    close(coverage, [(k + 1) / samples for k in range(samples)])
    close(risk, risks_naive(confidence.tolist(), correct.tolist()))
    close(aurc(logits, labels, rule=rule), risk.mean().item())
    close(risk[-1], 1 - accuracy(logits, labels, rule=rule).item())


def test_confident_errors_cost_more_than_unsure_ones():
    logits = torch.tensor([[[9.0, 0.0], [1.0, 0.0]]], dtype=torch.float64)
    close(aurc(logits, torch.tensor([0, 1])), 1 / 4)
    close(aurc(logits, torch.tensor([1, 0])), 3 / 4)
