"""Members: the jackknife over pairs, and their accuracies in records of figure 7."""

from itertools import combinations
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tepui.papers.sharpbalance.protocol import score_records
from tepui.studies import pair_pseudo_values
from tepui.studies.results import Record


@given(st.lists(st.floats(-5, 5), min_size=3, max_size=7))
def test_the_jackknife_of_a_mean_is_the_mean(own):
    size = len(own)
    matrix = [[0.0] * size for _ in own]
    for i, j in combinations(range(size), 2):
        matrix[i][j] = matrix[j][i] = (own[i] + own[j]) / 2
    found = pair_pseudo_values(matrix)
    assert found == pytest.approx(own, abs=1e-9)
    assert stdev(found) == pytest.approx(stdev(own), abs=1e-9)


def test_members_are_kept_with_their_accuracy_only_and_in_files():
    scores = [{"individual_accuracy": fmean(each), "eir": 0.5} for each in MEMBERS]
    names = {"item": "x/y1", "dataset": "d", "architecture": "a", "method": "m"}
    members = [100 * one for each in MEMBERS for one in each]
    metrics = ["individual_accuracy", "eir"]
    accuracy, eir = score_records(scores, metrics, [], members, **names)
    assert (accuracy.members, eir.members) == ((50.0, 70.0, 60.0, 80.0), ())
    assert accuracy.value == pytest.approx(fmean(accuracy.members))
    for record in (accuracy, eir):
        assert Record.of(record.document()) == record
    assert "members" not in eir.document()


MEMBERS = (0.5, 0.7), (0.6, 0.8)
