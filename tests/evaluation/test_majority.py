"""An ensemble that is no better than the most frequent class is called that."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from torch import nn

import tepui
from tepui.data import Arrays
from tepui.evaluation.by_class import Guess, guess_on


@given(st.integers(0, 60), st.floats(0.05, 0.95))
def test_a_guess_is_tested_as_scipy_does(right, majority):
    p = binomtest(right, 60, majority, alternative="greater").pvalue
    assert Guess(right / 60, majority, 60).ties == (p > 0.05)


@given(st.integers(0, 60), st.floats(0.05, 0.95))
def test_what_a_guess_beats_is_tested_as_scipy_does(right, majority):
    p = binomtest(right, 60, majority, alternative="less").pvalue
    assert Guess(right / 60, majority, 60).wins == (p <= 0.05)


def test_an_evaluation_says_that_a_guess_does_better():
    result = str(tepui.evaluate(tepui.Ensemble([member(-5.0)]), DATA))
    why = "data may have shifted from the training data"
    assert f"worse than guessing; {why}: " in result
    assert "cannot be told" not in result


def member(scale: float) -> nn.Module:
    """A classifier as sure of the right class as the scale says; 0 guesses."""
    layer = nn.Linear(3, 3, bias=False)
    with torch.no_grad():
        layer.weight.copy_(scale * torch.eye(3))
    return layer


LABELS = torch.tensor([0] * 20 + [1] * 10)
DATA = Arrays(torch.eye(3)[LABELS], LABELS)


@pytest.mark.parametrize(("scale", "guesses"), [(5.0, False), (0.0, True)])
def test_an_evaluation_says_whether_it_is_better_than_a_guess(scale, guesses):
    result = tepui.evaluate(tepui.Ensemble([member(scale)]), DATA)
    assert result.majority == result.document()["majority"] == pytest.approx(2 / 3)
    assert guess_on(result.document()).ties == guesses
    said = "always naming the most frequent class would get 66.67 %"
    assert (said in str(result)) == guesses


def test_a_shift_on_which_a_guess_does_better_is_named():
    turned = Arrays(torch.eye(3)[2 - LABELS], LABELS)
    shifted = {"turned": turned, "same": DATA}
    result = str(tepui.evaluate(tepui.Ensemble([member(5.0)]), DATA, shifted=shifted))
    assert "worse than guessing on turned data: 33.33 % of 30 samples" in result
    assert "worse than guessing on same" not in result
