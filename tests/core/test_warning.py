"""Warnings point at the line that called tepui, through every door."""

import inspect
import warnings

import pytest
import torch
from torch import nn

import tepui
from tepui.core.warning import are_probabilities, warn
from tepui.data import Arrays
from tepui.methods import DeepEnsemble
from tepui.metrics import TemperatureScaling, fit_calibration

LABELS = torch.arange(12) % 2
DATA = Arrays(torch.eye(2)[LABELS], LABELS)
LOGITS = torch.eye(2)[LABELS].unsqueeze(0)


def ensemble() -> tepui.Ensemble:
    """Two members that are always right and not sure."""
    members = [nn.Linear(2, 2, bias=False) for _ in range(2)]
    with torch.no_grad():
        for size, member in enumerate(members, 1):
            member.weight.copy_(size * torch.eye(2))
    return tepui.Ensemble(members)


CALLS = {
    "calibrate": lambda: ensemble().calibrate(DATA),
    "fit_calibration": lambda: fit_calibration(LOGITS, LABELS),
    "TemperatureScaling": lambda: TemperatureScaling.fit(LOGITS, LABELS),
    "conformal": lambda: ensemble().conformal(DATA, 0.99),
    "in a module": lambda: _Warning()(torch.zeros(1)),
}


class _Warning(nn.Module):
    @torch.no_grad()
    def forward(self, inputs):
        with torch.random.fork_rng():
            warn("mind this")
        return inputs


@pytest.mark.parametrize("name", CALLS)
def test_a_warning_points_at_the_caller(name):
    call = CALLS[name]
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        call()
    assert {warning.filename for warning in log} == {__file__}
    if name != "in a module":
        assert {w.lineno for w in log} == {inspect.getsourcelines(call)[1]}


def test_a_category_is_kept():
    with pytest.warns(RuntimeWarning, match="beyond"):
        warn("beyond", RuntimeWarning)


CLASSES = torch.arange(30) % 3
SAMPLES = Arrays(
    torch.eye(3)[CLASSES] + CLASSES[:, None] / 7,
    CLASSES,
)


def members_of_classes(last):
    return tepui.Ensemble.build(lambda: nn.Sequential(nn.Linear(3, 3), last), 2, seed=0)


def test_both_training_and_evaluation_warn_of_a_last_softmax():
    members = members_of_classes(nn.Softmax(-1))
    how = {"method": DeepEnsemble(), "epochs": 1, "progress": "none"}
    with pytest.warns(UserWarning, match="leave out their last softmax, or return its"):
        tepui.fit(members, SAMPLES, **how)
    with pytest.warns(UserWarning, match="members seem to return probabilities"):
        tepui.evaluate(members, SAMPLES)


@pytest.mark.parametrize("last", [nn.Identity(), nn.LogSoftmax(-1), nn.Sigmoid()])
def test_other_outputs_pass(last):
    members = members_of_classes(last)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tepui.fit(
            members,
            SAMPLES,
            method=DeepEnsemble(),
            epochs=1,
            progress="none",
        )
        tepui.evaluate(members, SAMPLES)


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
