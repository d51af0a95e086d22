"""Conformal sets and intervals: definitions, and the promise of their coverage."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tepui.metrics import ConformalIntervals, ConformalSets, conformal_quantile

SCORES = ("threshold", "aps")
modest = settings(max_examples=25, deadline=None)


def drawn(samples, classes, seed):
    """Probabilities of an imperfect model, and labels of the true ones."""
    generator = torch.Generator().manual_seed(seed)
    true = 2 * torch.randn(samples, classes, generator=generator, dtype=torch.float64)
    noise = torch.randn(samples, classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(true.softmax(-1), 1, generator=generator)[:, 0]
    return (2 * true + noise).softmax(-1), labels


def score_naive(row, label, kind, u):
    """The score of a class, from its definition."""
    if kind == "threshold":
        return 1 - row[label]
    likelier = [p for p in row if p > row[label]]
    return sum(likelier) + u * row[label]


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("seed", [None, 7])
@modest
@given(st.integers(0, 2**31), st.integers(5, 40), st.integers(2, 6))
def test_sets_are_those_of_the_definition(kind, seed, number, samples, classes):
    probs, labels = drawn(samples + 10, classes, number)
    fitted = ConformalSets.fit(
        probs[10:], labels[10:], coverage=0.7, score=kind, seed=seed
    )
    rows, answers = probs.tolist(), labels.tolist()
    u = fitted._draws(probs[10:]).tolist()
    scores = sorted(
        score_naive(row, label, kind, v)
        for row, label, v in zip(rows[10:], answers[10:], u, strict=True)
    )
    limit = scores[math.ceil((samples + 1) * 0.7 - 1e-9) - 1]
    assert float(fitted.limit) == pytest.approx(limit, abs=1e-12)
    found = fitted.sets(probs[:10])
    u = fitted._draws(probs[:10]).tolist()
    for n in range(10):
        for c in range(classes):
            score = score_naive(rows[n], c, kind, u[n])
            if abs(score - limit) > 1e-12:
                assert bool(found[n, c]) == (score <= limit)


HELD, NEW, REPEATS = 500, 1000, 10


def standard_error(coverage):
    """The binomial error of one coverage; held-out and new samples both vary."""
    return math.sqrt(coverage * (1 - coverage) * (1 / HELD + 1 / NEW))


def coverage_of(fit, number, classes):
    """Mean coverage over several draws of held-out and new samples."""
    shares = []
    for repeat in range(REPEATS):
        probs, labels = drawn(HELD + NEW, classes, number + repeat)
        sets = fit(probs[:HELD], labels[:HELD]).sets(probs[HELD:])
        shares.append(sets.gather(1, labels[HELD:, None]).double().mean().item())
    return sum(shares) / REPEATS


@pytest.mark.parametrize("kind", SCORES)
@modest
@given(st.integers(0, 2**31), st.sampled_from([0.5, 0.8, 0.9]), st.integers(2, 12))
def test_coverage_is_what_was_promised(kind, number, coverage, classes):
    def fit(probs, labels):
        return ConformalSets.fit(
            probs, labels, coverage=coverage, score=kind, seed=number
        )

    share = coverage_of(fit, number, classes)
    assert abs(share - coverage) < 3 * standard_error(coverage)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("classes", [2, 3, 40])
def test_a_set_depends_on_neither_batch_nor_place(dtype, classes):
    probs, labels = drawn(400, classes, 5)
    probs = probs.to(dtype)
    fitted = ConformalSets.fit(probs[:200], labels[:200], score="aps", seed=3)
    new = probs[200:]
    sets = fitted.sets(new)
    for size in (1, 8):
        parts = [fitted.sets(part) for part in new.split(size)]
        assert torch.equal(torch.cat(parts), sets)
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    assert torch.equal(fitted.sets(new[order]), sets[order])


@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_draws_are_even_differ_between_seeds_and_outlast_rounding(classes):
    probs, labels = drawn(2000, classes, 0)
    first, second = (
        ConformalSets.fit(probs, labels, score="aps", seed=seed)._draws(probs)
        for seed in (0, 1)
    )
    counts = torch.histc(first, 20, 0, 1)
    assert (counts - 100).square().sum() / 100 < 50  # 19 degrees of freedom
    assert torch.stack([first, second]).corrcoef()[0, 1].abs() < 0.1
    shift = 1e-6 * torch.randn(probs.shape, generator=torch.Generator().manual_seed(1))
    moved = (probs.log() + shift).softmax(-1)
    change = ConformalSets.fit(probs, labels, score="aps", seed=0)._draws(moved) - first
    around = torch.minimum(change.abs(), 1 - change.abs())
    assert around.max() < 5e-4


@modest
@given(st.integers(0, 2**31), st.sampled_from([0.5, 0.8, 0.95]))
def test_without_a_seed_coverage_is_at_least_that(number, coverage):
    def fit(probs, labels):
        return ConformalSets.fit(probs, labels, coverage=coverage, score="aps")

    assert coverage_of(fit, number, 6) > coverage - 3 * standard_error(coverage)


def numbers(samples, seed):
    """Predictions with a spread that is known but for its size, and targets."""
    generator = torch.Generator().manual_seed(seed)
    normal = lambda: torch.randn(  # noqa: E731
        samples, 2, generator=generator, dtype=torch.float64
    )
    mean, std = normal(), normal().exp()
    return mean, std, mean + 2 * std * normal()


def parts_of(kind, mean, std):
    if kind == "residual":
        return mean, None
    return (mean, std) if kind == "normalized" else (mean - std, mean + std)


@pytest.mark.parametrize("kind", ["residual", "normalized", "quantile"])
@modest
@given(st.integers(0, 2**31), st.sampled_from([0.5, 0.8, 0.9]))
def test_intervals_hold_what_was_promised(kind, number, coverage):
    shares = torch.zeros(2, dtype=torch.float64)
    for repeat in range(REPEATS):
        mean, std, targets = numbers(HELD + NEW, number + repeat)
        held = parts_of(kind, mean[:HELD], std[:HELD])
        fitted = ConformalIntervals.fit(
            *held, targets[:HELD], coverage=coverage, score=kind
        )
        lower, upper = fitted.interval(*parts_of(kind, mean[HELD:], std[HELD:]))
        assert (lower <= upper).all()
        inside = (lower <= targets[HELD:]) & (targets[HELD:] <= upper)
        shares += inside.double().mean(0) / REPEATS
    assert fitted.limit.shape == (2,)
    assert ((shares - coverage).abs() < 3 * standard_error(coverage)).all()


def test_limits_are_order_statistics():
    scores = torch.arange(1.0, 20.0)
    assert conformal_quantile(scores, 0.95) == 19
    assert conformal_quantile(scores, 0.9) == 18
    assert conformal_quantile(scores, 0.05) == 1
    # 0.29 of a hundred is 29, whatever floating numbers make of it.
    assert conformal_quantile(torch.arange(1.0, 100.0), 0.29) == 29


def test_too_few_samples_hold_everything_and_say_so():
    probs, labels = drawn(8, 4, 0)
    with pytest.warns(UserWarning, match=r"8 samples cannot promise.*at least 9 samp"):
        fitted = ConformalSets.fit(probs, labels, coverage=0.9)
    assert fitted.sets(probs).all()


def test_bad_input_is_named():
    probs, labels = drawn(20, 3, 0)
    with pytest.raises(ValueError, match="score must be one of threshold, aps"):
        ConformalSets.fit(probs, labels, score="lac")
    with pytest.raises(ValueError, match=r"probs must lie in \[0, 1\]"):
        ConformalSets.fit(2 * probs, labels)
    with pytest.raises(ValueError, match=r"labels must have shape \(20,\)"):
        ConformalSets.fit(probs, labels[:5])
    with pytest.raises(ValueError, match="second must be standard deviations"):
        ConformalIntervals.fit(probs, None, probs, score="normalized")
    with pytest.raises(ValueError, match="second must be positive standard"):
        ConformalIntervals.fit(probs, 0 * probs, probs, score="normalized")
