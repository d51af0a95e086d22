"""The time left is right within a factor of 1.5, also where epochs are unequal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tepui.methods import SAM, DeepEnsemble, SharpBalance
from tepui.training.progress import Shown, seconds_left

STEPS = 50
# What an epoch really takes, in units of a plain one: not what methods say it costs.
METHODS = {
    "plain": (DeepEnsemble(), lambda epoch, epochs: 1.0),
    "late SAM": (SAM(start_at=0.5), lambda epoch, n: 1.9 if epoch >= n // 2 else 1.0),
    "SharpBalance": (
        SharpBalance(switch_at=0.6, fraction=0.4),
        lambda epoch, n: 1.0 + (epoch >= 0.6 * n) * 0.7 + (epoch == int(0.6 * n)) * 1.4,
    ),
    "scored often": (
        SharpBalance(before="sam", switch_at=0.25, refresh_every=2),
        lambda epoch, n: 1.9 + (epoch >= n // 4 and (epoch - n // 4) % 2 == 0) * 0.8,
    ),
}


def played(method, real, epochs, unit, begin=0):
    """Play a run on a clock of its own; yield elapsed time, truth and estimate."""
    now = 0.0
    costs = [method.relative_cost(epoch, epochs) for epoch in range(epochs)]
    left = Shown("", costs, STEPS, clock=lambda: now)
    takes = [unit * real(epoch, epochs) for epoch in range(epochs)]
    now = 7.0
    left.advance(round(begin * STEPS))
    first, part = int(begin), begin - int(begin)
    start, end = now, now + sum(takes[first:]) - part * takes[first]
    for epoch in range(first, epochs):
        for _ in range(round(part * STEPS) if epoch == first else 0, STEPS):
            now += takes[epoch] / STEPS
            left.advance(1)
            yield now - start, end - now, left.seconds


@pytest.mark.parametrize("unit", [2.0, 20.0, 400.0])
@pytest.mark.parametrize("begin", [0, 3, 7.5])
@pytest.mark.parametrize("name", METHODS)
def test_the_time_left_is_right_after_a_minute(name, unit, begin):
    seen = 0
    for elapsed, truth, estimate in played(*METHODS[name], 20, unit, begin):
        if elapsed > 60 and truth > 1e-6:
            assert truth / 1.5 < estimate < truth * 1.5
            seen += 1
        elif elapsed > 60:
            assert estimate == pytest.approx(0, abs=1e-6)
    assert seen or unit == 2.0


def test_a_guess_by_the_last_epoch_alone_would_be_wrong():
    method, real = METHODS["SharpBalance"]
    elapsed, truth, estimate = next(
        row for row in played(method, real, 20, 20.0) if row[0] >= 11.5 * 20
    )
    done = 11.5
    assert (20 - done) / done * elapsed < truth / 1.2
    assert estimate == pytest.approx(truth, rel=0.2)


def test_nothing_is_known_before_the_first_step():
    assert Shown("", [1, 1], STEPS, clock=lambda: 3.0).seconds is None


@given(
    st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=1, max_size=12),
    st.floats(0.1, 100),
)
def test_work_in_proportion_to_its_cost_is_foretold_exactly(costs, unit):
    left = seconds_left(costs, 0, 1, costs[0] * unit)
    assert left == pytest.approx(sum(costs[1:]) * unit)
