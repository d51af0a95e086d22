"""Selective classification against its definition."""

from itertools import pairwise, permutations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import RULES, close, labeled_ensembles, modest
from tepui.metrics import (
    accuracy,
    augrc,
    aurc,
    auroc,
    ensemble_predictions,
    ensemble_probs,
    selective_curve,
)
from tepui.metrics.ood import _risk_coverage


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


def test_confident_errors_cost_more_than_unsure_ones():
    logits = torch.tensor([[[9.0, 0.0], [1.0, 0.0]]], dtype=torch.float64)
    close(aurc(logits, torch.tensor([0, 1])), 1 / 4)
    close(aurc(logits, torch.tensor([1, 0])), 3 / 4)


def augrc_naive(logits, labels):
    """Trapezoids under the share answered and wrong, over all orders of equals."""
    confidence = (-doubts(logits)).tolist()
    predicted = ensemble_predictions(logits).tolist()
    wrong = [p != y for p, y in zip(predicted, labels.tolist(), strict=True)]
    levels = sorted(set(confidence), reverse=True)
    area, risk = 0.0, 0.0
    for level in levels:
        group = [w for w, c in zip(wrong, confidence, strict=True) if c == level]
        next_risk = risk + sum(group) / len(wrong)
        area += len(group) / len(wrong) * (risk + next_risk) / 2
        risk = next_risk
    return area


@modest
@given(labeled_ensembles())
def test_augrc_from_its_definition(case):
    logits, labels = case
    close(augrc(logits, labels), augrc_naive(logits, labels))


def test_augrc_follows_from_accuracy_and_the_detection_of_mistakes():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 300, 4, generator=generator).double()
    labels = torch.randint(4, (300,), generator=generator)
    confidence, predicted = logits.softmax(-1).mean(0).max(-1)
    wrong = predicted != labels
    found = auroc(-confidence[~wrong], -confidence[wrong])
    error = wrong.double().mean()
    expected = (1 - found) * error * (1 - error) + error**2 / 2
    close(augrc(logits, labels), expected)
