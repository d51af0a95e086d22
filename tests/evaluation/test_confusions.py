"""What missed samples were called, against scikit-learn's matrix."""

import torch
from sklearn.metrics import confusion_matrix
from torch import nn

import tepui
from tepui.data import Arrays
from tepui.evaluation.by_class import MOST, confusions
from tepui.metrics import ensemble_predictions


def test_an_evaluation_counts_them_as_scikit_learn_does():
    torch.manual_seed(0)
    inputs, labels = torch.randn(60, 5), torch.arange(60) % 4
    names = ("ant", "bee", "cow", "dog")
    ensemble = tepui.Ensemble.build(lambda: nn.Linear(5, 4), members=3)
    found = tepui.evaluate(ensemble, Arrays(inputs, labels, classes=names))
    called = ensemble_predictions(ensemble.predict(inputs).logits)
    matrix = confusion_matrix(labels, called)
    told = {(truth, name): count for truth, name, count in found.confusions}
    for row, truth in enumerate(names):
        for column, name in enumerate(names):
            expected = 0 if row == column else matrix[row, column]
            assert told.get((truth, name), 0) == expected
    counts = [each.samples for each in found.confusions]
    assert counts == sorted(counts, reverse=True)
    assert found.document()["confusions"][0] == [*found.confusions[0]]


def test_of_many_the_most_frequent_are_kept():
    labels = torch.arange(200).repeat(2)
    called = torch.cat([torch.full((200,), 7), torch.arange(200)])
    called[200 + 150 :] = 7
    found = confusions(labels, called, [str(number) for number in range(200)])
    assert len(found) == MOST
    assert {each.truth for each in found[:50]} == {str(n) for n in range(150, 200)}
    assert found[0].samples == 2


def test_labels_of_one_byte_do_not_overflow():
    names = [str(number) for number in range(100)]
    labels = torch.tensor([3, 99, 99], dtype=torch.uint8)
    found = confusions(labels, torch.tensor([5, 0, 0]), names)
    assert [tuple(each) for each in found] == [("99", "0", 2), ("3", "5", 1)]
