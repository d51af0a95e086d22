"""How unfamiliar samples are among held-out ones, by several scores together."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tepui.metrics import HeldOutScores
from tepui.metrics.held_out_scores import (
    objections,
    unfamiliar_at,
)

FEW = st.lists(st.integers(-4, 4).map(float), min_size=2, max_size=40)


def fitted(values, dtype=torch.float64):
    return HeldOutScores.fit({"pds": torch.tensor(values, dtype=dtype)})


def naive_surprise(others, value, samples):
    """By counting, with the distance from the highest of the others beyond it."""
    above = sum(other >= value for other in others)
    half = sorted(others)[len(others) // 2 :]
    width = max(sum(half) / len(half) - half[0], 1e-200)
    beyond = min(max(0, value - max(others)) / width, 1e6)
    return math.log((samples + 1) / (1 + above)) + beyond


def naive(columns, new):
    """Shares of held-out samples whose sum over the scores is lower, in a loop."""
    samples = len(columns[0])

    def own(i, column, value):
        others, kept = column[:i] + column[i + 1 :], column[i]
        above = sum(other >= kept for other in [*others, value])
        alone = naive_surprise(others, kept, samples)
        return math.log((samples + 1) / (1 + above)) if value >= kept else alone

    shares = []
    for values in zip(*new, strict=True):
        both = [*zip(columns, values, strict=True)]
        total = sum(naive_surprise(*each, samples) for each in both)
        sums = [sum(own(i, *each) for each in both) for i in range(samples)]
        shares.append(sum(one < total - 1e-6 for one in sums) / (samples + 1))
    return shares


@given(st.data(), FEW)
def test_it_is_the_share_of_lower_sums_of_surprises(data, first):
    few = st.lists(
        st.integers(-4, 4).map(float), min_size=len(first), max_size=len(first)
    )
    columns = [first, data.draw(few)]
    new = [[-5.0, 0.0, 3.0, 9.0], [9.0, 0.0, 4.0, -5.0]]
    tensors = dict(zip("ab", map(torch.tensor, columns), strict=True))
    held = HeldOutScores.fit(tensors)
    found = held.unfamiliarity(dict(zip("ab", map(torch.tensor, new), strict=True)))
    np.testing.assert_allclose(found.numpy(), naive(columns, new), atol=1e-6)


def test_of_one_score_it_is_the_share_that_scores_less():
    held = fitted([float(n) for n in range(9)])
    found = held.unfamiliarity({"pds": torch.tensor([-1.0, 3.5, 8.5])})
    assert found.tolist() == pytest.approx([0, 0.4, 0.9])
    constant = fitted([0.5] * 7)
    found = constant.unfamiliarity({"pds": torch.tensor([0.0, 0.5, 0.6])})
    assert found.tolist() == pytest.approx([0, 0, 7 / 8])


def drawn(kind, samples, generator):
    """Scores of samples that are all alike: related, of far ends, with ties."""
    rows = torch.randn(samples, 4, generator=generator, dtype=torch.float64)
    rows[:, 1] = 0.9 * rows[:, 0] + 0.4 * rows[:, 1]
    if kind == "opposed":
        rows[:, 2] = -rows[:, 0]
    if kind == "far ends":
        rows = rows / torch.rand(samples, 1, generator=generator).double().sqrt()
        rows = rows.exp().clamp(max=1e30)
    columns = (rows * 4).round().T if kind == "ties" else rows.T
    return dict(zip("abcd", columns, strict=True))


@pytest.mark.parametrize("kind", ["related", "opposed", "far ends", "ties"])
@pytest.mark.parametrize(("samples", "level"), [(99, 0.99), (200, 0.95), (1000, 0.95)])
def test_false_alarms_of_all_scores_are_no_more_than_told(kind, samples, level):
    """Counted on 16 000 samples, with 40 sets of held-out ones."""
    draws = torch.Generator().manual_seed(0)
    rounds, new, rates = 40, 400, []
    for _ in range(rounds):
        held = HeldOutScores.fit(drawn(kind, samples, draws))
        found = held.unfamiliarity(drawn(kind, new, draws))
        rates.append(float(unfamiliar_at(level, found, samples).double().mean()))
    rate, error = np.mean(rates), np.std(rates) / math.sqrt(rounds)
    assert rate < 1 - level + 4 * error
    if kind != "ties":
        assert rate > (1 - level) * 0.9 - 4 * error


def test_far_out_by_one_score_is_unfamiliar_whatever_the_others_say():
    draws = torch.Generator().manual_seed(2)
    held = HeldOutScores.fit(drawn("related", 150, draws))
    usual = torch.full((1,), -3.0, dtype=torch.float64)
    for name in "abcd":
        found = held.surprises({**dict.fromkeys("abcd", usual), name: usual + 100})
        scores = {**dict.fromkeys("abcd", usual), name: usual + 100}
        called = unfamiliar_at(0.99, held.unfamiliarity(scores), 150)
        assert called.all()
        objecting = objections(0.99, found, called)[0].tolist()
        assert [n for n, objects in zip("abcd", objecting, strict=True) if objects] == [
            name
        ]
