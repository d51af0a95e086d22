"""Every way to join members, beside every other."""

import pytest
import torch
from torch import nn

from tepui import Ensemble, aggregations, metrics, oracle_selection
from tepui.ensembles.outputs import dataset_logits
from tepui.evaluation.combining import greedy_soup, uniform_soup
from training.cases import (
    CLASSES,
    assert_same_bits,
    copied,
    numbers,
    one_thread,
)

single = pytest.fixture(autouse=True)(one_thread)

WAYS = [
    "mean of the members",
    "ensemble, probability",
    "ensemble, logit",
    "ensemble, vote",
    "uniform soup",
    "greedy soup",
    "best member",
]


def linear():
    return nn.Linear(4, CLASSES)


def test_rows_are_those_of_their_functions():
    ensemble = Ensemble.build(linear, members=4, seed=2)
    test, held_out = numbers(90, seed=1), numbers(60, seed=2)
    before = copied(ensemble)
    rows = {r.way: r for r in aggregations(ensemble, test, held_out=held_out)}
    logits, labels = dataset_logits(ensemble, test)
    accuracies = metrics.individual_accuracy(logits, labels)
    expected = {
        "mean of the members": accuracies.mean(),
        "best member": accuracies.max(),
    }
    for rule in ("probability", "logit", "vote"):
        expected[f"ensemble, {rule}"] = metrics.accuracy(logits, labels, rule=rule)
    soups = {
        "uniform soup": uniform_soup(ensemble),
        "greedy soup": greedy_soup(ensemble, held_out).ensemble,
    }
    for way, soup in soups.items():
        expected[way] = metrics.accuracy(*dataset_logits(soup, test))
    assert rows.keys() == expected.keys()
    for way, value in expected.items():
        assert rows[way].accuracy == pytest.approx(float(value))
    assert_same_bits(before, ensemble)


def test_the_oracle_is_the_best_member_and_the_first_of_equals():
    labels = torch.tensor([0, 1, 2, 0])
    correct = torch.eye(3)[labels]
    wrong = torch.eye(3)[(labels + 1) % 3]
    half = torch.cat([correct[:2], wrong[2:]])
    actual = oracle_selection(torch.stack([half, correct, wrong, correct]), labels)
    assert (actual.member, actual.accuracy) == (1, 1.0)


def test_soups_can_be_left_out_where_architectures_differ():
    ensemble = Ensemble.build([linear, lambda: nn.Sequential(linear())])
    with pytest.raises(ValueError, match="have the architecture of member 0"):
        aggregations(ensemble, numbers())
    ways = [row.way for row in aggregations(ensemble, numbers(), soups=False)]
    assert ways == [*WAYS[:4], "best member"]
