"""When tepui calibrate doubts what it did."""

from dataclasses import replace
from math import nan
from pathlib import Path

import pytest

from tepui.cli.calibration_gain import doubt_in_words
from tepui.evaluation.applied import AppliedScores
from tepui.studies.calibration_gain import Gain
from tepui.studies.statistics import Interval

RUN = Path("runs/mine")
WITHOUT = "--method none --coverage 0.9"
REMEDY = (
    "hold out more samples (tepui train --validation), or drop it: tepui calibrate "
    "runs/mine --method none --coverage 0.9"
)


def gain(change, eces=(0.05, 0.03)):
    before, after = (AppliedScores(nll=0.5, ece=ece) for ece in eces)
    return Gain(before, after, change, 30)


def test_what_helps_is_not_doubted():
    assert doubt_in_words(gain(Interval(-0.1, -0.15, -0.05, 30)), RUN, WITHOUT) == ""


def test_what_makes_it_worse_is_said():
    said = doubt_in_words(gain(Interval(0.1, 0.05, 0.15, 30)), RUN, WITHOUT)
    assert said == (
        "calibration makes probabilities worse (NLL of samples not fitted on changes "
        f"by +0.1000, 95 % interval +0.0500 to +0.1500); {REMEDY}"
    )


@pytest.mark.parametrize(
    ("change", "eces", "begins"),
    [
        (Interval(-0.01, -0.05, 0.03, 30), (0.05, 0.03), "30 samples cannot tell"),
        (Interval(-0.01, -0.05, 0.03, 30), (0.03, 0.05), "30 samples cannot tell"),
        (Interval(nan, nan, nan, 0), (0.05, 0.03), "30 samples cannot tell"),
    ],
)
def test_too_few_samples_are_said_to_be(change, eces, begins):
    said = doubt_in_words(gain(change, eces), RUN, WITHOUT)
    assert said.startswith(begins)
    assert said.endswith(REMEDY)
    assert ("ECE got worse" in said) == (eces[1] > eces[0])
    assert "nan" not in said


def test_that_nothing_changes_is_said_without_an_interval_of_zeros():
    said = doubt_in_words(gain(Interval(0.0, -1e-6, 1e-6, 30)), RUN, WITHOUT)
    assert said == "by 30 samples probabilities are right as they are: nothing changes"


def test_one_sample_is_counted_as_one():
    alone = replace(gain(Interval(nan, nan, nan, 0)), samples=1)
    assert doubt_in_words(alone, RUN, WITHOUT).startswith("1 sample cannot tell")


def test_a_calibration_error_that_rose_is_said():
    change = Interval(-0.1, -0.15, -0.05, 30)
    said = doubt_in_words(gain(change, (0.03, 0.05)), RUN, WITHOUT)
    assert said.startswith("ECE got worse on these samples though NLL falls")
    assert "tepui evaluate runs/mine" in said
    assert (
        doubt_in_words(gain(change, (0.03001, 0.03004)), RUN, WITHOUT) == ""
    )  # as shown
