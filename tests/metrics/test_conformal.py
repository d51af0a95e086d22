"""Conformal sets and intervals: definitions, and the promise of their coverage."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tepui.metrics import ConformalIntervals, ConformalSets, conformal_quantile
from tepui.metrics.conformal import CLIP, density_ratio, ratio_weights

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


@pytest.mark.parametrize("kind", SCORES)
@modest
@given(st.integers(0, 2**31), st.integers(30, 60), st.integers(2, 4))
def test_sets_per_class_are_those_of_the_definition(kind, number, samples, classes):
    probs, labels = drawn(samples + 10, classes, number)
    held, answers = probs[10:].numpy(), labels[10:].numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fitted = ConformalSets.fit(
            probs[10:], labels[10:], coverage=0.7, score=kind, per="class"
        )
    found = fitted.sets(probs[:10])
    for c in range(classes):
        own = sorted(score_naive(row, c, kind, 0) for row in held[answers == c])
        place = math.ceil((len(own) + 1) * 0.7 - 1e-9)
        limit = own[place - 1] if place <= len(own) else math.inf
        for n, row in enumerate(probs[:10].numpy()):
            if abs(score_naive(row, c, kind, 0) - limit) > 1e-12:
                assert bool(found[n, c]) == (score_naive(row, c, kind, 0) <= limit)


def weighted_limit_naive(scores, weights, weight, coverage):
    """The weighted quantile with the new sample's mass at infinity, in numpy."""
    every = np.append(scores, np.inf)
    mass = np.append(weights, weight) / (weights.sum() + weight)
    for value in np.sort(every):
        if mass[every <= value].sum() >= coverage:
            return value
    return np.inf


@pytest.mark.parametrize("kind", SCORES)
@modest
@given(st.integers(0, 2**31), st.integers(2, 60), st.floats(0.1, 0.95))
def test_weighted_sets_are_those_of_the_definition(kind, number, samples, coverage):
    probs, labels = drawn(samples + 10, 4, number)
    drawing = np.random.default_rng(number)
    weights = drawing.exponential(size=samples + 10) ** 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fitted = ConformalSets.fit(
            probs[10:],
            labels[10:],
            coverage=coverage,
            score=kind,
            weights=torch.from_numpy(weights[10:]),
        )
    found = fitted.sets(probs[:10], torch.from_numpy(weights[:10]))
    scores = np.array(
        [
            score_naive(row, label, kind, 0)
            for row, label in zip(probs[10:].numpy(), labels[10:], strict=True)
        ]
    )
    for n, row in enumerate(probs[:10].numpy()):
        limit = weighted_limit_naive(scores, weights[10:], weights[n], coverage)
        for c in range(4):
            if abs(score_naive(row, c, kind, 0) - limit) > 1e-12:
                assert bool(found[n, c]) == (score_naive(row, c, kind, 0) <= limit)
    effective = weights[10:].sum() ** 2 / (weights[10:] ** 2).sum()
    assert fitted.effective_samples == pytest.approx(effective)


@pytest.mark.parametrize("coverage", [0.29, 0.5, 0.9])
def test_equal_weights_are_no_weights(coverage):
    probs, labels = drawn(199, 5, 3)
    plain = ConformalSets.fit(probs[:99], labels[:99], coverage=coverage)
    weights = torch.full((199,), 0.1)
    same = ConformalSets.fit(
        probs[:99], labels[:99], coverage=coverage, weights=weights[:99]
    )
    assert torch.equal(plain.sets(probs[99:]), same.sets(probs[99:], weights[99:]))
    assert same.effective_samples == pytest.approx(99)


SPLITS, TOLD = 2000, 0.8


def mean_and_error(values):
    """The mean over splits, and three standard errors of it."""
    known = np.array(values)[~np.isnan(values)]
    return known.mean(), 3 * known.std(ddof=1) / math.sqrt(len(known))


@pytest.mark.slow
def test_each_class_is_covered_over_2000_splits():
    rare = torch.tensor([0.1, 0.3, 0.6])
    each, together = [], []
    for split in range(SPLITS):
        probs, labels = drawn(1200, 3, split)
        generator = torch.Generator().manual_seed(split)
        kept = torch.rand(1200, generator=generator) < rare[labels]
        probs = (probs[kept].log() + rare.log()).softmax(1)
        labels = labels[kept]
        for shares, per in ((each, "class"), (together, None)):
            fitted = ConformalSets.fit(
                probs[:200], labels[:200], coverage=TOLD, per=per
            )
            held = fitted.sets(probs[200:]).gather(1, labels[200:, None])[:, 0]
            shares.append([held[labels[200:] == c].double().mean() for c in range(3)])
    for c in range(3):
        mean, error = mean_and_error([shares[c] for shares in each])
        # At least as promised, and at most by one in n + 1 of the rarest class more.
        assert TOLD - error < mean < TOLD + 1 / 15 + error
    plain = [mean_and_error([s[c] for s in together])[0] for c in range(3)]
    assert min(plain) < TOLD - 0.05  # what one limit for all does not promise


@pytest.mark.slow
def test_the_shifted_are_covered_over_2000_splits():
    known, estimated, plain = [], [], []
    for split in range(SPLITS):
        generator = torch.Generator().manual_seed(split)
        x = 2 * torch.randn(1500, generator=generator, dtype=torch.float64)
        true = torch.stack([torch.zeros_like(x), x], 1)
        labels = torch.multinomial(true.softmax(1), 1, generator=generator)[:, 0]
        held, rest = torch.arange(1500) < 400, torch.arange(1500) >= 400
        odds = 1 / x.cosh()  # of being seen later: likelier where it is hard
        moved = rest & (torch.rand(1500, generator=generator) < odds)
        logits = (2 * true)[None]
        probs = logits[0].softmax(1)
        ratio = density_ratio(logits[:, held], logits[:, moved])
        for shares, weights in (
            (known, odds),
            (estimated, ratio_weights(ratio, logits)),
            (plain, torch.ones_like(x)),
        ):
            fitted = ConformalSets.fit(
                probs[held], labels[held], coverage=TOLD, weights=weights[held]
            )
            sets = fitted.sets(probs[moved], weights[moved])
            inside = sets.gather(1, labels[moved, None])
            shares.append(inside.double().mean())
    mean, error = mean_and_error(known)
    assert TOLD - error < mean < TOLD + 1 / 200 + error
    assert abs(mean_and_error(estimated)[0] - TOLD) < 0.01
    assert abs(mean_and_error(plain)[0] - TOLD) > 0.02


def test_a_density_ratio_is_that_of_two_gaussians_and_clipped():
    x = torch.randn(1, 20_000, 1, generator=torch.Generator().manual_seed(0)).double()
    x = torch.cat([x + 0.1, x - 0.1])  # two members, whose mean it is
    *factors, constant = density_ratio(x, x + 1).tolist()
    assert sum(factors) == pytest.approx(1, abs=0.05)  # of one logit and its energy
    assert constant == pytest.approx(-0.5, abs=0.05)
    outputs = torch.tensor([[[0.0, 0.0], [0.0, 99.0], [99.0, 0.0]]])
    found = ratio_weights(torch.tensor([-1.0, 1.0, 0.0, 0.0]).double(), outputs)
    assert found.tolist() == pytest.approx([1, CLIP, 1 / CLIP])


def test_classes_with_too_few_samples_are_told_and_in_every_set():
    probs, labels = drawn(60, 4, 0)
    labels = labels.where(labels < 2, 0)
    labels[:5] = 3
    with pytest.warns(UserWarning, match="at least 9 samples of it") as told:
        fitted = ConformalSets.fit(probs, labels, coverage=0.9, per="class")
    assert "class 2: 0" in str(told[0].message)
    assert "class 3: 5" in str(told[0].message)
    assert fitted.limit.isinf().tolist() == [False, False, True, True]
    assert fitted.sets(probs)[:, 2:].all()
    assert str(fitted) == "a coverage of 0.9 of each class"


def test_weights_that_say_too_little_are_told():
    probs, labels = drawn(100, 4, 0)
    weights = torch.ones(100)
    weights[:2] = 1e6
    with pytest.warns(UserWarning, match="worth 2 equal samples.: it needs at least 9"):
        fitted = ConformalSets.fit(probs, labels, weights=weights)
    assert "weights worth 2 equal samples" in str(fitted)
    assert fitted.sets(probs[2:], 1e9 * weights[2:]).all()


BAD = {
    "another per": ({"per": "label"}, "per must be one of None, class, got 'label'"),
    "both": ({"per": "class", "weights": torch.ones(20)}, "per must be None beside"),
    "too short": ({"weights": torch.ones(5)}, r"weights must have shape \(20,\), got"),
    "negative": ({"weights": -torch.ones(20)}, "weights must be finite and not neg"),
    "NaN": ({"weights": torch.full((20,), math.nan)}, "weights must be finite"),
    "all 0": ({"weights": torch.zeros(20)}, "weights must not all be 0"),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD)
def test_bad_weights_and_groups_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        ConformalSets.fit(*drawn(20, 3, 0), **options)


def test_weights_are_asked_of_new_samples_and_only_if_there_were_some():
    probs, labels = drawn(20, 3, 0)
    plain = ConformalSets.fit(probs, labels)
    with pytest.raises(
        ValueError, match="weights must be given if held-out samples had"
    ):
        plain.sets(probs, torch.ones(20))
    fitted = ConformalSets.fit(probs, labels, weights=torch.ones(20))
    with pytest.raises(
        ValueError, match="weights must be given if held-out samples had"
    ):
        fitted.sets(probs)
    with pytest.raises(ValueError, match=r"weights must have shape \(20,\)"):
        fitted.sets(probs, torch.ones(3))


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
