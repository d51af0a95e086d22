"""What averaging does, in words: nothing adds less than zero."""

import math

import pytest
from scipy import stats

from report_cases import evaluation
from tepui.report.comparison import Comparison, MethodResult, Trained
from tepui.report.measures import ACCURACY, RMSE
from tepui.report.scores import gain_in_words, scores_lead

MINUS = chr(0x2212)


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


def method(label, pairs):
    """Return a method by accuracies of its members and its ensembles."""
    made = []
    for n, (single, together) in enumerate(pairs):
        own = evaluation({}) | {"shifted": None, "samples": 10_000, "cells": []}
        scores = {"individual_accuracy": single, "accuracy": together}
        own["clean"] = {**own["clean"], **scores}
        made.append(Trained("nowhere", (n,), 1.0, own, {}, None))
    return MethodResult(label, {}, tuple(made))


def test_what_averaging_does_has_the_interval_of_the_ensembles():
    first = [(0.80, 0.81), (0.82, 0.80), (0.81, 0.79)]
    second = [(0.80, 0.79), (0.80, 0.795), (0.80, 0.785)]
    methods = (method("A", first), method("B", second))
    said = scores_lead(Comparison("made up", {}, {}, methods))
    found = []
    for pairs in (first, second):
        gains = [100 * (together - single) for single, together in pairs]
        found += stats.ttest_1samp(gains, 0).confidence_interval(0.95)
    low, high = (f"{end:+.1f}".replace("-", MINUS) for end in (min(found), max(found)))
    assert said == (
        "Averaging two members costs 1.0 points of accuracy on clean data "
        f"(95 % intervals within {low} to {high})."
    )


def test_one_ensemble_has_no_interval_of_what_averaging_does():
    made = Comparison("made up", {}, {}, (method("A", [(0.80, 0.79)]),))
    assert scores_lead(made).endswith("on clean data (no interval from one ensemble).")
