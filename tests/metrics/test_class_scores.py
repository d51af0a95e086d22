"""Scores of each class against scikit-learn, and from their definition."""

import math
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, precision_recall_fscore_support

from strategies import RULES, close, labeled_ensembles, modest
from tepui.metrics import (
    accuracy,
    balanced_accuracy,
    class_scores,
    ensemble_predictions,
)

rules = st.sampled_from(RULES)


@modest
@given(labeled_ensembles(), rules)
def test_scores_of_each_class_are_those_of_scikit_learn(case, rule):
    logits, labels = case
    predicted = ensemble_predictions(logits, rule=rule)
    precision, recall, f1, samples = precision_recall_fscore_support(
        labels, predicted, labels=range(logits.shape[2]), zero_division=math.nan
    )
    found = class_scores(logits, labels, rule=rule)
    assert found.samples.tolist() == samples.tolist()
    close(found.recall, recall)
    close(found.precision, precision)
    close(found.f1, f1)


@modest
@given(labeled_ensembles(), rules)
def test_balanced_accuracy_is_that_of_scikit_learn(case, rule):
    logits, labels = case
    predicted = ensemble_predictions(logits, rule=rule)
    with warnings.catch_warnings():
        # A class that is predicted and does not occur.
        warnings.simplefilter("ignore", UserWarning)
        expected = balanced_accuracy_score(labels, predicted)
    close(balanced_accuracy(logits, labels, rule=rule), expected)


def test_balanced_accuracy_is_accuracy_where_classes_are_as_frequent():
    logits = torch.randn(3, 40, 4, generator=torch.Generator().manual_seed(0)).double()
    labels = torch.arange(40) % 4
    close(balanced_accuracy(logits, labels), accuracy(logits, labels))


def test_what_is_a_share_of_nothing_is_no_number():
    logits = torch.tensor([[[9.0, 0, 0, 0], [9.0, 0, 0, 0], [0, 9.0, 0, 0]]])
    found = class_scores(logits, torch.tensor([0, 2, 0]))
    # Classes: found and missed, only predicted, only there, neither.
    nan = math.nan
    expected = [[2, 0, 1, 0], [0.5, nan, 0, nan], [0.5, 0, nan, nan], [0.5, 0, 0, nan]]
    for actual, row in zip(found, expected, strict=True):
        assert actual.tolist() == pytest.approx(row, nan_ok=True)
    assert balanced_accuracy(logits, torch.tensor([0, 2, 0])) == 0.25
