"""What a step draws follows from member and step alone, captured or not."""

import contextlib

import pytest
import torch
from torch import nn

from tepui.core.seeding import derive
from tepui.methods import GSAM, SAM, SED, DeepEnsemble
from tepui.training.coupled import Party, joint_gradient
from tepui.training.graphs import Draws, drawing_from, rehearsed
from training.cases import CLASSES, StoppedError, fitted, member_of, numbers, stop_after
from training.draw_cases import Drawing, StandIn, batch

MASK = 5


class Masked(nn.Module):
    """Notes the masks that it draws in training."""

    def __init__(self, notes):
        super().__init__()
        self.layer = nn.Linear(4, CLASSES)
        self.notes = notes

    def forward(self, x):
        if self.training:
            self.notes.append(torch.rand(MASK))
        return self.layer(x)


def masks_of_a_run(passes, method, **how):
    """Return the masks of every member and step, one list of passes each."""
    notes = []

    def factory():
        notes.append([])
        return Masked(notes[-1])

    with contextlib.suppress(StoppedError):
        fitted(numbers(), factory, method=method, epochs=3, **how)
    return [
        [own[at : at + passes] for at in range(0, len(own), passes)] for own in notes
    ]


def drawn_by_hand(seed, step):
    stream = torch.Generator().manual_seed(derive(seed, "noise", step))
    return torch.rand(MASK, generator=stream)


@pytest.mark.parametrize(
    ("method", "passes"), [(DeepEnsemble(), 1), (SAM(), 2), (GSAM(), 2)], ids=repr
)
def test_masks_follow_from_seed_and_step_alone(method, passes):
    runs = masks_of_a_run(passes, method, seed=[11, 12])
    for seed, steps in zip((11, 12), runs, strict=True):
        assert len(steps) == 9
        for number, masks in enumerate(steps):
            assert len(masks) == passes
            for mask in masks:
                assert torch.equal(mask, drawn_by_hand(seed, number))


def test_a_resumed_run_draws_what_was_left(tmp_path):
    how = {"method": SAM(), "seed": [11, 12], "out": tmp_path}
    masks_of_a_run(2, callbacks=[stop_after(1)], **how)
    for seed, left in zip((11, 12), masks_of_a_run(2, resume=True, **how), strict=True):
        assert 0 < len(left) < 9
        for number, masks in enumerate(left, start=9 - len(left)):
            assert torch.equal(masks[1], drawn_by_hand(seed, number))


def replayed(generator, members, draws, step, seeds, notes):
    """Return what a step draws from states that were seeded before it."""
    for each, seed in zip(draws, seeds, strict=True):
        each.seed(seed)
    notes.clear()
    with drawing_from(generator, members, draws):
        step()
    return list(notes)


METHODS = {
    "one pass": (DeepEnsemble(), 1),
    "two passes": (SAM(rho=0.1), 2),
    "GSAM": (GSAM(rho=0.1, rho_min=0.05), 2),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("accumulate", [1, 4])
def test_every_captured_pass_begins_at_the_seed(name, accumulate):
    method, passes = METHODS[name]
    generator, notes = StandIn().manual_seed(99), []
    member = member_of(Drawing(generator, notes), accumulate=accumulate)

    def step():
        method.gradient(member, batch())

    draws = rehearsed(generator, [member], step)
    assert [len(each.states) for each in draws] == [passes]
    assert (generator.state.seed, generator.state.offset) == (99, 0)
    one_pass = [(7, 4 * (number + 1)) for number in range(2 * accumulate)]
    for _ in range(2):
        drawn = replayed(generator, [member], draws, step, [7], notes)
        assert drawn == one_pass * passes
    assert member.begin_captured_pass is None


def test_both_batches_of_a_mixed_step_see_the_same_masks():
    generator, notes = StandIn(), []
    member = member_of(Drawing(generator, notes))

    def step():
        member.gradients(batch(), batch())

    draws = rehearsed(generator, [member], step)
    drawn = replayed(generator, [member], draws, step, [3], notes)
    assert drawn == [(3, 4), (3, 8)] * 2


def test_coupled_members_keep_to_their_own_seeds():
    generator, notes = StandIn(), []
    members = [member_of(Drawing(generator, notes)) for _ in range(3)]

    def step():
        joint_gradient(SED(active=2), Party.here(members), (batch(), batch()))

    draws = rehearsed(generator, members, step)
    drawn = replayed(generator, members, draws, step, [1, 2, 3], notes)
    assert drawn == [(seed, at) for seed in (1, 2, 3) for at in (4, 8)] * 2


def test_a_step_that_draws_nothing_has_no_states_to_seed():
    generator = StandIn()
    member = member_of(nn.Linear(4, CLASSES))
    assert rehearsed(generator, [member], lambda: member.gradient(batch())) == ()


def test_states_are_put_back_after_an_error():
    generator = StandIn().manual_seed(5)
    kept, member = generator.state, member_of(nn.Linear(4, CLASSES))

    def fail(draws):
        with drawing_from(generator, [member], draws):
            member.gradient(batch())
            assert generator.state is not kept
            raise StoppedError

    for draws in ((), (Draws(generator),)):
        with pytest.raises(StoppedError):
            fail(draws)
        assert generator.state is kept
        assert member.begin_captured_pass is None
