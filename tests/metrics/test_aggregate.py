"""Ensemble probabilities and predictions against their definitions."""

import math

import pytest
import torch
from hypothesis import assume, given
from torch import Tensor

from strategies import RULES, close, ensembles, modest, probs_naive, softmax_naive
from tepui.metrics import (
    ensemble_log_probs,
    ensemble_predictions,
    ensemble_probs,
    predictions,
)


def votes_naive(logits: Tensor) -> list[list[int]]:
    members, samples, classes = logits.shape
    votes = [[0] * classes for _ in range(samples)]
    for m in range(members):
        for n in range(samples):
            row = logits[m, n].tolist()
            votes[n][row.index(max(row))] += 1
    return votes


def ensemble_probs_naive(logits: Tensor, rule: str) -> list[list[float]]:
    members, samples, classes = logits.shape
    if rule == "vote":
        return [[vote / members for vote in row] for row in votes_naive(logits)]
    result = []
    for n in range(samples):
        rows = [logits[m, n].tolist() for m in range(members)]
        if rule == "probability":
            rows = [softmax_naive(row) for row in rows]
        mean = [sum(row[c] for row in rows) / members for c in range(classes)]
        result.append(mean if rule == "probability" else softmax_naive(mean))
    return result


@pytest.mark.parametrize("rule", RULES)
@modest
@given(logits=ensembles())
def test_probs_match_naive(rule, logits):
    close(ensemble_probs(logits, rule=rule), ensemble_probs_naive(logits, rule))


@pytest.mark.parametrize("rule", RULES)
@modest
@given(logits=ensembles())
def test_log_probs_match_naive(rule, logits):
    expected = [
        [math.log(p) if p > 0 else -math.inf for p in row]
        for row in ensemble_probs_naive(logits, rule)
    ]
    close(ensemble_log_probs(logits, rule=rule), expected)


@modest
@given(logits=ensembles())
def test_predictions_match_naive(logits):
    expected = [[row.index(max(row)) for row in member] for member in logits.tolist()]
    assert predictions(logits).tolist() == expected


@pytest.mark.parametrize("rule", ["probability", "logit"])
@modest
@given(logits=ensembles())
def test_ensemble_predicts_the_most_probable_class(rule, logits):
    rows = ensemble_probs_naive(logits, rule)
    for row in rows:
        first, second = sorted(row)[:-3:-1]
        assume(first - second > 1e-9)
    expected = [row.index(max(row)) for row in rows]
    assert ensemble_predictions(logits, rule=rule).tolist() == expected


@modest
@given(logits=ensembles())
def test_vote_predictions_match_naive(logits):
    mean, expected = torch.tensor(probs_naive(logits)).double().mean(0), []
    for n, votes in enumerate(votes_naive(logits)):
        tied = [c for c, vote in enumerate(votes) if vote == max(votes)]
        best = sorted(float(mean[n, c]) for c in tied)[::-1]
        assume(len(tied) == 1 or best[0] - best[1] > 1e-6)
        expected.append(max(tied, key=lambda c: float(mean[n, c])))
    assert ensemble_predictions(logits, rule="vote").tolist() == expected


def test_a_tied_vote_ignores_probable_classes_without_a_vote():
    # Votes: class 0 once, class 1 once, class 2 never, though it has the largest mean.
    probs = torch.tensor([[[0.45, 0.11, 0.44]], [[0.05, 0.51, 0.44]]])
    assert ensemble_predictions(probs.log()).item() == 2
    assert ensemble_predictions(probs.log(), rule="vote").item() == 1


def test_one_sure_member_outweighs_two_except_in_a_vote():
    logits = torch.tensor([[[0.0, 9.0]], [[1.0, 0.0]], [[1.0, 0.0]]])
    assert ensemble_predictions(logits, rule="probability").item() == 1
    assert ensemble_predictions(logits, rule="logit").item() == 1
    assert ensemble_predictions(logits, rule="vote").item() == 0


def test_equal_logits_go_to_the_first_class():
    logits = torch.tensor([[[0.0, 5.0, 5.0]], [[-1.0, 2.0, 2.0]]])
    assert predictions(logits).tolist() == [[1], [1]]
    for rule in RULES:
        assert ensemble_predictions(logits, rule=rule).item() == 1


def test_log_probs_stay_finite_where_float32_probs_vanish():
    logits = torch.tensor([[[0.0, 1000.0]], [[0.0, 2000.0]]])
    assert ensemble_probs(logits)[0, 0] == 0
    expected = torch.tensor([[-1000.0 - math.log(2), 0.0]])
    torch.testing.assert_close(ensemble_log_probs(logits), expected)


@modest
@given(logits=ensembles())
def test_for_one_member_probability_and_logit_rules_agree(logits):
    one = logits[:1]
    close(ensemble_probs(one, rule="probability"), ensemble_probs(one, rule="logit"))
