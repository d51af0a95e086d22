"""What averaging does, in words: nothing adds less than zero."""

import math

import pytest

from tepui.report.measures import ACCURACY, RMSE
from tepui.report.scores import gain_in_words


@pytest.mark.parametrize(
    ("gains", "measure", "said"),
    [
        ([0.4, 0.8], ACCURACY, "gains 0.4 to 0.8 points of accuracy"),
        ([0.0, 0.8], ACCURACY, "gains 0.0 to 0.8 points of accuracy"),
        ([-0.7], ACCURACY, "costs 0.7 points of accuracy"),
        ([-0.7, 0.0], ACCURACY, "costs 0.0 to 0.7 points of accuracy"),
        (
            [-0.7, 0.1, 1.2],
            ACCURACY,
            "costs up to 0.7 or gains up to 1.2 points of accuracy, by the method,",
        ),
        ([0.01, -0.04], ACCURACY, "gains nothing"),
        ([0.25], RMSE, "lowers the error by 0.250"),
        ([-0.25], RMSE, "raises the error by 0.250"),
        ([math.nan], RMSE, "has an effect that is not known"),
        ([math.nan, 0.25], RMSE, "lowers the error by 0.250"),
    ],
)
def test_gains_and_costs_have_words_of_their_own(gains, measure, said):
    assert gain_in_words(gains, measure) == said
