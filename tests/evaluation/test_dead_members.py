"""A member that has not learned is visible, and a warning names it."""

import math
import warnings

import pytest
import torch
from torch import nn

import tepui
from tepui import Ensemble, metrics
from tepui.data import Arrays
from tepui.evaluation.dead_members import Losses, dead_members

LABELS = torch.arange(30) % 3
DATA = Arrays(torch.eye(3)[LABELS], LABELS)


def member(scale: float) -> nn.Module:
    """A classifier as sure of the right class as the scale says; 0 guesses."""
    layer = nn.Linear(3, 3, bias=False)
    with torch.no_grad():
        layer.weight.copy_(scale * torch.eye(3))
    return layer


def test_scores_show_each_member():
    ensemble = Ensemble([member(5.0), member(4.0), member(-1.0)])
    with pytest.warns(UserWarning, match="member 2 may not have learned"):
        result = tepui.evaluate(ensemble, DATA, shifted={("same", 1): DATA})
    logits = ensemble.logits(DATA.inputs)
    accuracies = metrics.individual_accuracy(logits, LABELS).tolist()
    assert result.clean.member_accuracies == pytest.approx(accuracies)
    assert accuracies == [1, 1, 0]
    losses = [math.log1p(2 * math.exp(-scale)) for scale in (5, 4, -1)]
    assert result.clean.member_nlls == pytest.approx(losses, rel=1e-5)


@pytest.mark.parametrize(
    ("scales", "dead"),
    [
        ((5.0, 5.0, 0.0), [2]),
        ((0.0, 5.0), [0]),
        ((5.0, 5.0, -20.0, 5.0, 0.0), [2, 4]),  # diverged, and guessing
        ((0.0, 0.0, 0.0), []),  # none has learned: nothing to tell apart
        ((9.0, 4.0, 9.0), []),  # far above the others, but far below guessing
        ((3.0, 2.0, 2.5), []),
        ((0.0,), []),
    ],
)
def test_a_warning_names_each_member_far_above_its_peers(scales, dead):
    ensemble = Ensemble([member(scale) for scale in scales])
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        losses = tepui.evaluate(ensemble, DATA).clean.member_nlls
    assert dead_members(Losses(losses, math.log(3))) == dead
    assert len(log) == len(dead)
    for warning, index in zip(log, dead, strict=True):
        assert f"member {index} may not have learned" in str(warning.message)
        assert "guessing without looking at the inputs gives 1.1" in str(
            warning.message
        )
        assert warning.filename == __file__
