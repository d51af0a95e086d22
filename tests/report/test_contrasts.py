"""Differences of methods over shared seeds, with the floor of one prediction."""

import math
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy import stats

from tepui.report.comparison import MethodResult, Trained
from tepui.report.contrasts import (
    contrast,
    gaps,
    interval_of,
    leads,
    seed_pairs,
)
from tepui.studies import mean_interval, paired_difference

NUMBERS = some.lists(some.floats(-10, 10), min_size=2, max_size=8)


def method(label, values, seeds=None):
    """Return a method whose ensembles have a score, and seeds from 1 on."""
    seeds = range(1, len(values) + 1) if seeds is None else seeds
    ensembles = tuple(
        Trained("nowhere", (seed,), 1.0, {"score": value}, {}, None)
        for seed, value in zip(seeds, values, strict=True)
    )
    return MethodResult(label, {}, ensembles)


def read(trained):
    return trained.evaluation["score"]


@given(NUMBERS, some.floats(0, 5))
def test_an_interval_is_students_over_the_larger_spread(values, step):
    found = mean_interval(values, step)
    count = len(values)
    spread = max(stdev(values), step / math.sqrt(12))
    reach = stats.t.ppf(0.975, count - 1) * spread / math.sqrt(count)
    assert found.mean == pytest.approx(fmean(values))
    assert found.reach == pytest.approx(reach, abs=1e-9)
    assert (found.low + found.high) / 2 == pytest.approx(found.mean, abs=1e-9)


def test_equal_differences_of_two_predictions_are_not_certain():
    # Of 360 samples, one prediction is 0.28 points; two pairs know little.
    first, second = [99.4, 99.2], [98.8, 98.6]
    assert paired_difference(first, second).apart
    careful = paired_difference(first, second, step=100 / 360)
    assert not careful.apart
    reach = stats.t.ppf(0.975, 1) * 100 / 360 / math.sqrt(6) / math.sqrt(2)
    assert careful.reach == pytest.approx(reach)
    assert careful.p > 0.05


@given(NUMBERS)
def test_pairs_are_found_by_their_seeds_in_any_order(values):
    base = method("base", [0.0] * len(values))
    order = range(len(values), 0, -1)
    turned = method("turned", values[::-1], order)
    assert [own.seeds for own, _ in seed_pairs(turned, base)] == [(n,) for n in order]
    assert sorted(gaps(turned, base, read)) == pytest.approx(sorted(values))
    assert contrast(turned, base, read).mean == pytest.approx(fmean(values))


def test_unshared_seeds_give_no_difference():
    base = method("base", [1.0, 2.0, 3.0])
    assert contrast(method("a", [1.0, 2.0], [8, 9]), base, read) is None
    assert contrast(method("a", [1.0, 2.0], [1, 9]), base, read) is None
    nameless = MethodResult(
        "a", {}, tuple(Trained("", (), 1.0, {"score": 1.0}, {}, None) for _ in range(3))
    )
    assert seed_pairs(nameless, nameless) == []
    undefined = method("a", [None, 1.0, None])
    assert contrast(undefined, base, read) is None
    assert interval_of(undefined, read).count == 1


def test_a_method_leads_only_if_it_is_apart_from_all_and_better():
    low = method("low", [1.0, 1.1, 0.9])
    mid = method("mid", [2.0, 2.1, 2.0])
    high = method("high", [3.0, 3.0, 3.1])
    assert leads(high, [low, mid], read)
    assert not leads(low, [mid, high], read)  # apart as well, but behind
    assert leads(low, [mid, high], read, better="lower")
    assert not leads(high, [low, mid], read, better="lower")
    assert not leads(high, [low, mid], read, better="")
    assert not leads(mid, [low, high], read)
    assert not leads(high, [low, method("far", [0.0], [9])], read)
    assert not leads(high, [], read)
