"""Sharpness-aware sets against brute force over Python sets."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from tepui.methods.sets import extreme_samples, random_samples, sharpness_aware_set


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


def brute_force_set(selected, member, leftover):
    """Follow the definitions with sets of indices."""
    members, samples = selected.shape
    chosen = [{n for n in range(samples) if selected[i, n]} for i in range(members)]
    others = set().union(*(chosen[j] for j in range(members) if j != member))
    free = sorted(set(range(samples)) - set().union(*chosen))
    own = set(free[member::members])
    extra = {"none": set(), "split": own, "boost": set(free) - own}[leftover]
    return others | extra


selections = st.tuples(st.integers(1, 5), st.integers(1, 30), st.integers(0, 2**30))


@given(selections, st.sampled_from(["none", "split", "boost"]))
def test_sets_equal_brute_force(shape, leftover):
    members, samples, seed = shape
    selected = torch.rand(members, samples, generator=stream(seed)) < 0.4
    for member in range(members):
        mask = sharpness_aware_set(selected, member, leftover)
        found = {n for n in range(samples) if mask[n]}
        assert found == brute_force_set(selected, member, leftover)


@example([0.0] * 100, 290, True)
@example([0.0] * 3000, 290, False)
@given(
    st.lists(st.sampled_from([0.0, 1e-30, 1.0, 2.0, 5.0]), min_size=1, max_size=40),
    st.integers(0, 1000),
    st.booleans(),
)
def test_extreme_samples_are_no_less_extreme_than_the_rest(values, share, highest):
    scores = torch.tensor(values)
    mask = extreme_samples(scores, share / 1000, stream(), highest=highest)
    released = int(share / 1000 * len(values))  # 869 of .29 of 3,000
    expected = share * len(values) // 1000 if highest else released
    assert int(mask.sum()) == expected
    if mask.any() and not mask.all():
        inside, outside = scores[mask], scores[~mask]
        if highest:
            assert inside.min() >= outside.max()
        else:
            assert inside.max() <= outside.min()


def released_sets(scores, fraction, leftover):
    """Follow the released code: the lowest of each, and every so many of the rest."""
    samples, members = len(scores[0]), len(scores)
    chosen = [
        set(sorted(range(samples), key=row.__getitem__)[: int(fraction * samples)])
        for row in scores
    ]
    free = sorted(set(range(samples)) - set().union(*chosen))
    sets = []
    for member in range(members):
        others = set().union(*(chosen[j] for j in range(members) if j != member))
        own = set(free[member::members])
        sets.append(others | (own if leftover == "split" else set(free) - own))
    return sets


@pytest.mark.parametrize("leftover", ["split", "boost"])
@example(3, 3000, 290, 0)
@given(
    st.integers(2, 5),
    st.one_of(st.integers(7, 60), st.integers(61, 3000)),
    st.integers(1, 1000),
    st.integers(0, 2**30),
)
def test_sets_equal_those_of_the_released_code(leftover, members, samples, share, seed):
    scores = torch.rand(members, samples, generator=stream(seed), dtype=torch.float64)
    selected = torch.stack(
        [extreme_samples(s, share / 1000, stream(), highest=False) for s in scores]
    )
    expected = released_sets(scores.tolist(), share / 1000, leftover)
    for member in range(members):
        mask = sharpness_aware_set(selected, member, leftover)
        assert set(mask.nonzero()[:, 0].tolist()) == expected[member]


def test_ties_are_broken_by_the_generator_alone():
    scores = torch.zeros(100)
    first = extreme_samples(scores, 0.5, stream(1), highest=True)
    assert torch.equal(first, extreme_samples(scores, 0.5, stream(1), highest=True))
    assert not torch.equal(first, extreme_samples(scores, 0.5, stream(2), highest=True))


def test_random_samples_leave_the_rounded_rest():
    mask = random_samples(10, 0.35, stream())
    assert int(mask.sum()) == 10 - int(0.65 * 10)
    assert random_samples(10, 1.0, stream()).all()


# Shares of the sharpness-aware set for three members, by (leftover, identical).
EXPECTED = {
    ("none", False): (0.51, 0.64, 0.75),
    ("split", False): (0.63, 0.71, 0.79),
    ("boost", False): (0.74, 0.78, 0.83),
    ("none", True): (0.30, 0.40, 0.50),
    ("split", True): (0.53, 0.60, 0.67),
    ("boost", True): (0.77, 0.80, 0.83),
}


@pytest.mark.parametrize(("leftover", "identical"), EXPECTED)
@pytest.mark.parametrize("position", range(3))
@pytest.mark.parametrize("highest", [True, False])
def test_sizes_for_independent_and_identical_rankings(
    leftover, identical, position, highest
):
    samples, fraction = 30_000, (0.3, 0.4, 0.5)[position]
    scores = [
        torch.rand(samples, generator=stream(0 if identical else seed))
        for seed in range(3)
    ]
    selected = torch.stack(
        [extreme_samples(s, fraction, stream(), highest=highest) for s in scores]
    )
    for member in range(3):
        share = sharpness_aware_set(selected, member, leftover).float().mean()
        assert float(share) == pytest.approx(
            EXPECTED[leftover, identical][position], abs=0.011
        )
