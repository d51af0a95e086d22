import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import lr_scheduler

from strategies import modest
from tepui import Constant, Cosine, MultiStep

STEPS = 7


def factors(schedule, epochs, steps=STEPS):
    return [schedule.factor(step, steps, epochs) for step in range(epochs * steps)]


def at_epochs(schedule, epochs):
    return factors(schedule, epochs)[::STEPS]


def of_torch(make, epochs):
    """Return the learning rates of a torch scheduler that steps once an epoch."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler, rates = make(optimizer), []
    for _ in range(epochs):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


@given(
    st.integers(1, 20), st.lists(st.integers(1, 25), max_size=4), st.floats(0.05, 1.0)
)
@modest
def test_multistep_equals_torch(epochs, milestones, gamma):
    ours = MultiStep(milestones=tuple(milestones), gamma=gamma)
    theirs = of_torch(
        lambda o: lr_scheduler.MultiStepLR(o, milestones, gamma=gamma), epochs
    )
    assert at_epochs(ours, epochs) == pytest.approx(theirs, rel=1e-12)


@given(st.integers(1, 9), st.integers(1, 9), st.floats(0, 1))
@modest
def test_cosine_equals_its_closed_form_at_every_step(epochs, steps, final):
    for step, factor in enumerate(factors(Cosine(final=final), epochs, steps)):
        wave = 0.5 * (1 + math.cos(math.pi * step / (epochs * steps)))
        assert factor == pytest.approx(final + (1 - final) * wave)


@pytest.mark.parametrize(
    ("share", "epochs", "milestone"),
    [(0.5, 200, 100), (0.75, 200, 150), (0.5, 7, 3), (0.29, 100, 29), (0.57, 100, 57)],
)
def test_a_share_of_the_run_is_an_epoch(share, epochs, milestone):
    by_share = MultiStep(milestones=(share,))
    by_epoch = MultiStep(milestones=(milestone,))
    assert factors(by_share, epochs, 2) == factors(by_epoch, epochs, 2)


def test_one_is_an_epoch_and_not_a_share():
    assert at_epochs(MultiStep(milestones=(1,)), 3) == [1.0, 0.1, 0.1]
    assert at_epochs(MultiStep(milestones=(1.0,)), 3) == [1.0, 0.1, 0.1]


@given(st.sampled_from([Constant, Cosine, MultiStep]), st.floats(0.01, 3.0))
@modest
def test_warm_up_rises_in_a_line_from_above_zero(kind, warmup):
    plain, warmed = factors(kind(), 4), factors(kind(warmup=warmup), 4)
    for step, (one, other) in enumerate(zip(plain, warmed, strict=True)):
        rise = min(1.0, (step + 1) / (warmup * STEPS))
        assert other == pytest.approx(rise * one)
    assert 0 < warmed[0] <= 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Constant(warmup=-0.5), "warmup must be non-negative, got -0.5"),
        (
            lambda: MultiStep(milestones=(0.5, 0)),
            r"milestones must be positive, got \(0.5, 0\)",
        ),
        (lambda: MultiStep(gamma=0.0), r"gamma must lie in \(0, 1\], got 0.0"),
        (lambda: MultiStep(gamma=2.0), r"gamma must lie in \(0, 1\], got 2.0"),
        (lambda: Cosine(final=1.5), r"final must lie in \[0, 1\], got 1.5"),
        (lambda: Cosine(warmup=-1), "warmup must be non-negative, got -1"),
    ],
)
def test_bad_values_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
