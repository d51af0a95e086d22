"""How unfamiliar a score is among those of held-out samples."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tepui.metrics import HeldOutScores
from tepui.metrics.held_out_scores import KEPT, unfamiliar_at

FEW = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=60)
MANY = st.integers(KEPT, 20 * KEPT)


def fitted(values, dtype=torch.float64):
    return HeldOutScores.fit({"pds": torch.tensor(values, dtype=dtype)}, "pds")


def naive(held, values):
    return np.array([(np.asarray(held) < value).mean() for value in values])


def test_the_share_is_of_those_that_score_less_and_not_of_ties():
    held = fitted([3.0, 1.0, 2.0, 2.0, 2.0])
    values = torch.tensor([0.0, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5])
    found = held.share_below("pds", values)
    assert found.tolist() == pytest.approx([0, 0, 0.2, 0.2, 0.8, 0.8, 1])


def test_where_all_score_the_same_nothing_but_more_is_unfamiliar():
    held = fitted([0.5] * 7)
    found = held.share_below("pds", torch.tensor([0.0, 0.5, math.nextafter(0.5, 1)]))
    assert found.tolist() == [0, 0, 0]  # float32 does not tell the last from 0.5
    assert held.share_below("pds", torch.tensor([0.6])).tolist() == [1]


@given(FEW, FEW)
def test_of_few_samples_it_is_exact(held, values):
    found = fitted(held).share_below("pds", torch.tensor(values))
    np.testing.assert_allclose(found.numpy(), naive(held, values), atol=1e-7)


@given(MANY, st.integers(0, 2**31), st.sampled_from([1e9, 50.0]))
def test_of_many_it_is_right_to_a_thousandth(samples, seed, steps):
    """With ties and without."""
    draws = np.random.default_rng(seed)
    held = (draws.standard_normal(samples) * steps).round() / steps
    values = (draws.standard_normal(50) * 2 * steps).round() / steps
    scores = fitted(held.tolist())
    assert len(scores.quantiles["pds"]) == KEPT
    found = scores.share_below("pds", torch.tensor(values))
    np.testing.assert_allclose(found.numpy(), naive(held, values), atol=1.01e-3)
    ends = torch.tensor([held.min(), held.max() + 1.0])
    assert scores.share_below("pds", ends).tolist() == [0, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_types_and_shapes_of_the_scores_are_kept_apart(dtype):
    held = fitted([0.0, 1.0, 2.0, 3.0], torch.float32)
    found = held.share_below("pds", torch.tensor([[0.5, 1.5]], dtype=dtype))
    assert found.tolist() == [[0.25, 0.5]]


@pytest.mark.parametrize("samples", [20, 99, 500, 5000])
@pytest.mark.parametrize("level", [0.9, 0.99])
def test_false_alarms_are_as_many_as_the_level_says(samples, level):
    """By the chance to exceed an order statistic of exchangeable samples."""
    draws = torch.Generator().manual_seed(0)
    rounds, new = 400, 200
    alarms = 0
    for _ in range(rounds):
        held = torch.rand(samples, generator=draws, dtype=torch.float64)
        scores = HeldOutScores.fit({"pds": held}, "pds")
        values = torch.rand(new, generator=draws, dtype=torch.float64)
        alarms += int(unfamiliar_at(level, scores.share_below("pds", values)).sum())
    expected = (samples + 1 - math.ceil(level * samples)) / (samples + 1)
    spread = math.sqrt(expected * (1 - expected) / min(samples, new) / rounds)
    assert abs(alarms / rounds / new - expected) < 5 * spread + 1 / KEPT


def test_a_level_is_reached_by_its_own_share():
    """No rounding between 99 of 100 and 0.99."""
    for samples in (100, 200, 1000):
        held = fitted([float(n) for n in range(samples)])
        at = torch.tensor([0.99 * samples - 0.5, 0.99 * samples - 1.5])
        assert unfamiliar_at(0.99, held.share_below("pds", at)).tolist() == [
            True,
            False,
        ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fitted([]), "scores must hold at least one sample"),
        (lambda: fitted([0.0, math.nan]), "scores must be finite"),
        (lambda: HeldOutScores.fit({}, "pds"), "default must be one of"),
        (
            lambda: HeldOutScores({"pds": torch.tensor([1.0, 0.0])}, "pds"),
            "quantiles of pds must be one number per sample, in rising order",
        ),
        (
            lambda: HeldOutScores({"pds": torch.zeros(2, 2)}, "pds"),
            "quantiles of pds must be one number per sample",
        ),
        (
            lambda: fitted([1.0]).share_below("pdf", torch.zeros(1)),
            r"score must be one of pds, got 'pdf' \(did you mean 'pds'",
        ),
        (lambda: unfamiliar_at(0.0, torch.zeros(1)), r"level must lie in \(0, 1\]"),
        (lambda: unfamiliar_at(99, torch.zeros(1)), r"level must lie in \(0, 1\]"),
    ],
)
def test_bad_calls_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
