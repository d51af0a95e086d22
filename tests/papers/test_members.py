"""Members as pairs: their own accuracy, and the jackknife of the improvement rate."""

from itertools import combinations
from statistics import fmean, stdev

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tepui.evaluation.stored_logits import StoredLogits
from tepui.papers.sharpbalance.bars import member_values
from tepui.studies import pair_pseudo_values
from tepui.studies.jackknife import group_pseudo_values
from tepui.studies.results import Record, averaged
from tepui.tasks import Classes, Scores
from tepui.tasks.scores import mean_scores


def stored(seed, members=3):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(40) % 4

    def answers(noise):
        truth = torch.nn.functional.one_hot(labels, 4).float()
        shape = (members, 40, 4)
        return truth + noise * torch.randn(shape, generator=generator), labels

    shifted = {("fog", n): answers(0.5 + n / 4) for n in (1, 2)}
    return StoredLogits("probability", answers(0.6), shifted, {}, Classes())


@pytest.mark.parametrize("part", ["clean", "shifted"])
def test_members_have_their_own_accuracy_and_rates_are_those_of_all_groups(part):
    several = [stored(seed) for seed in range(3)]
    found = member_values(several, part)
    sets = [("clean", 0)] if part == "clean" else [*several[0].shifted]

    def of(each, name):
        return each.clean if part == "clean" else each.shifted[name]

    logits = {n: torch.cat([of(each, n)[0] for each in several]) for n in sets}
    rates = {}
    for group in combinations(range(9), 3):
        each = (Scores.of(logits[n][[*group]], of(several[0], n)[1]) for n in sets)
        rates[group] = mean_scores(each).eir
    assert fmean(found["eir"]) == pytest.approx(fmean(rates.values()))
    without = [fmean(v for g, v in rates.items() if m not in g) for m in range(9)]
    expected = [9 * fmean(rates.values()) - 8 * rest for rest in without]
    assert found["eir"] == pytest.approx(expected, abs=1e-6)
    accuracies = [
        100
        * fmean(
            float((logits[n][m].argmax(1) == of(several[0], n)[1]).float().mean())
            for n in sets
        )
        for m in range(9)
    ]
    assert found["individual_accuracy"] == pytest.approx(accuracies, rel=1e-6)


def test_one_ensemble_has_no_groups_to_leave_a_member_out_of():
    assert [*member_values([stored(0)], "clean")] == ["individual_accuracy"]
    singles = [stored(seed, members=1) for seed in range(3)]
    assert [*member_values(singles, "clean")] == ["individual_accuracy"]


@given(st.integers(3, 7), st.randoms(use_true_random=False))
def test_groups_of_two_are_pairs(members, random):
    values = {pair: random.random() for pair in combinations(range(members), 2)}
    matrix = [[0.0] * members for _ in range(members)]
    for (i, j), value in values.items():
        matrix[i][j] = matrix[j][i] = value
    assert group_pseudo_values(values) == pytest.approx(pair_pseudo_values(matrix))


@given(st.lists(st.floats(-5, 5), min_size=4, max_size=7), st.integers(1, 3))
def test_the_jackknife_of_a_mean_is_the_mean(own, size):
    groups = {
        group: fmean(own[member] for member in group)
        for group in combinations(range(len(own)), size)
    }
    assert group_pseudo_values(groups) == pytest.approx(own, abs=1e-9)
    assert stdev(group_pseudo_values(groups)) == pytest.approx(stdev(own), abs=1e-9)


def test_a_member_in_every_group_is_refused():
    with pytest.raises(ValueError, match="values must hold groups without each member"):
        group_pseudo_values({(0, 1): 0.5, (0, 2): 0.5})


NAMES = {"item": "x/table1", "dataset": "d", "architecture": "a", "method": "m"}


def test_members_are_kept_in_files_and_files_without_them_are_read():
    record = averaged(
        [1.0, 2.0], [], metric="eir", unit="none", members=(0.5, 2.5), **NAMES
    )
    assert Record.of(record.document()) == record
    without = averaged([1.0, 2.0], [], metric="eir", unit="none", **NAMES)
    assert "members" not in without.document()
    assert Record.of(without.document()) == without
