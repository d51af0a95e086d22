"""Ensembles are called over-confident or too careful where that is not chance."""

from dataclasses import replace

import pytest

from report_cases import comparison
from tepui.report.reliability import reliability_lead


def stating(*confidences, samples):
    """Return methods that are right on 90 % of the data, and how sure they are."""
    given = comparison().methods[0]
    methods = []
    for n, stated in enumerate(confidences):
        bins = {"count": [samples], "confidence": [stated], "accuracy": [0.9]}
        own = {**given.ensembles[0].evaluation, "samples": samples}
        own["reliability"] = {"clean": bins}
        ensembles = (replace(given.ensembles[0], evaluation=own),)
        methods.append(replace(given, label=f"m{n}", ensembles=ensembles))
    return replace(comparison(), methods=tuple(methods))


@pytest.mark.parametrize(
    ("stated", "samples", "said"),
    [
        ([0.93], 10_000, "over-confident: they state 93.0 %"),
        ([0.87], 10_000, "too careful: they state 87.0 %"),
        ([0.93], 100, "on average as sure as right, as far as 100 samples tell: they"),
        ([0.93, 0.87], 10_000, "over-confident or too careful, depending on the"),
        ([0.93, 0.9], 10_000, "over-confident: they state 90.0 to 93.0 %"),
    ],
)
def test_a_gap_counts_where_chance_does_not_explain_it(stated, samples, said):
    found = reliability_lead(stating(*stated, samples=samples))
    assert found.startswith(f"On clean data the ensembles are {said}")
