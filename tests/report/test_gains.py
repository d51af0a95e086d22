"""What averaging does, in words: nothing adds less than zero."""

from scipy import stats

from report_cases import evaluation
from tepui.report.comparison import Comparison, MethodResult, Trained
from tepui.report.scores import gain_sentence

MINUS = chr(0x2212)


def method(label, pairs):
    """Return a method by accuracies of its members and its ensembles."""
    made = []
    for n, (single, together) in enumerate(pairs):
        own = evaluation({}) | {"shifted": None, "samples": 10_000, "cells": []}
        scores = {"individual_accuracy": single, "accuracy": together}
        own["clean"] = {**own["clean"], **scores}
        made.append(Trained("nowhere", (n,), 1.0, own, {}, None))
    return MethodResult(label, {}, tuple(made))


def test_what_averaging_changes_has_the_interval_of_the_ensembles():
    pairs = [(0.80, 0.81), (0.82, 0.80), (0.81, 0.79)]
    said = gain_sentence(Comparison("made up", {}, {}, (method("A", pairs),)))
    gains = [100 * (together - single) for single, together in pairs]
    low, high = stats.ttest_1samp(gains, 0).confidence_interval(0.95)
    both = f"{low:+.1f} to {high:+.1f}".replace("-", MINUS)
    assert said == (
        f"A's ensemble accuracy is 80.00 % on clean data, {MINUS}1.0 points against "
        f"one member (95 % interval {both})."
    )


def test_one_ensemble_has_no_interval_of_what_averaging_does():
    made = Comparison("made up", {}, {}, (method("A", [(0.80, 0.79)]),))
    assert gain_sentence(made).endswith("one member (one ensemble, no interval).")
