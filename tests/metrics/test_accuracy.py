"""Accuracies against loops, scikit-learn and torchmetrics."""

import pytest
import torch
from hypothesis import given
from sklearn.metrics import accuracy_score
from torchmetrics.functional.classification import multiclass_accuracy

from strategies import RULES, close, labeled_ensembles, modest
from tepui.metrics import (
    accuracy,
    corruption_accuracy,
    ensemble_predictions,
    individual_accuracy,
)


@modest
@given(case=labeled_ensembles())
def test_individual_accuracy_matches_naive(case):
    logits, labels = case
    expected = []
    for member in logits.tolist():
        hits = 0
        for row, label in zip(member, labels.tolist(), strict=True):
            hits += row.index(max(row)) == label
        expected.append(hits / len(labels))
    close(individual_accuracy(logits, labels), expected)


@pytest.mark.parametrize("rule", RULES)
@modest
@given(case=labeled_ensembles())
def test_accuracy_matches_references(rule, case):
    logits, labels = case
    predicted = ensemble_predictions(logits, rule=rule)
    close(accuracy(logits, labels, rule=rule), accuracy_score(labels, predicted))
    classes = logits.shape[2]
    micro = multiclass_accuracy(predicted, labels, classes, average="micro")
    assert accuracy(logits, labels, rule=rule).float() == pytest.approx(micro.item())


@modest
@given(case=labeled_ensembles())
def test_ensemble_of_one_is_as_accurate_as_its_member(case):
    logits, labels = case
    for rule in RULES:
        alone = individual_accuracy(logits[:1], labels)[0]
        assert accuracy(logits[:1], labels, rule=rule) == alone


def test_labels_may_have_any_integer_type():
    logits = torch.tensor([[[2.0, 0.0], [2.0, 0.0]]])
    for dtype in (torch.uint8, torch.int32, torch.int64):
        assert accuracy(logits, torch.tensor([0, 1], dtype=dtype)) == 0.5


def test_corruption_accuracy_is_the_mean_of_means():
    cells = {("fog", 1): 0.9, ("fog", 5): 0.5, ("snow", 1): 0.8, ("snow", 5): 0.2}
    assert corruption_accuracy(cells) == pytest.approx((0.7 + 0.5) / 2)


def test_corruption_accuracy_takes_tensors_and_numbers_together():
    half = torch.tensor(0.7, dtype=torch.float16)
    mixed = corruption_accuracy({("fog", 1): half, ("fog", 2): 0.5})
    assert mixed.dtype == torch.float32
    assert mixed == pytest.approx(0.6, abs=1e-3)
    double = {("fog", 1): torch.tensor(1 / 3, dtype=torch.float64)}
    assert corruption_accuracy(double).item() == 1 / 3


def test_corruption_accuracy_names_the_missing_cells():
    cells = {("fog", 1): 0.9, ("snow", 3): 0.8, ("snow", 1): 0.1}
    with pytest.raises(ValueError, match=r"got \"none for \[\('fog', 3\)\]\"$"):
        corruption_accuracy(cells)


def test_corruption_accuracy_rejects_nothing_and_vectors():
    with pytest.raises(ValueError, match="accuracies must hold at least one cell"):
        corruption_accuracy({})
    with pytest.raises(ValueError, match=r"\('fog', 1\)\] must be a scalar.*\(2,\)"):
        corruption_accuracy({("fog", 1): torch.tensor([0.5, 0.5])})
