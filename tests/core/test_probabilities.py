"""Members that return probabilities are noticed, where logits are expected."""

import warnings

import pytest
import torch
from torch import nn

import tepui
from tepui.core.warning import are_probabilities
from tepui.data import Arrays
from tepui.methods import DeepEnsemble

LABELS = torch.arange(30) % 3
DATA = Arrays(torch.eye(3)[LABELS] + LABELS[:, None] / 7, LABELS)


def ensemble(last):
    return tepui.Ensemble.build(lambda: nn.Sequential(nn.Linear(3, 3), last), 2, seed=0)


def test_both_training_and_evaluation_warn_of_a_last_softmax():
    members = ensemble(nn.Softmax(-1))
    how = {"method": DeepEnsemble(), "epochs": 1, "progress": "none"}
    with pytest.warns(UserWarning, match="leave out their last softmax, or return its"):
        tepui.fit(members, DATA, **how)
    with pytest.warns(UserWarning, match="members seem to return probabilities"):
        tepui.evaluate(members, DATA)


@pytest.mark.parametrize("last", [nn.Identity(), nn.LogSoftmax(-1), nn.Sigmoid()])
def test_other_outputs_pass(last):
    members = ensemble(last)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tepui.fit(members, DATA, method=DeepEnsemble(), epochs=1, progress="none")
        tepui.evaluate(members, DATA)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([[0.2, 0.8], [0.6, 0.4]], True),
        ([[0.2, 0.8], [0.6, 0.6]], False),
        ([[0.0, 1.0], [1.0, 0.0]], False),  # logits that somebody made up
        ([[1.5, -0.5]], False),
        ([[1.0]], False),
    ],
)
def test_probabilities_lie_between_zero_and_one_and_sum_to_one(rows, expected):
    assert are_probabilities(torch.tensor(rows)) == expected
