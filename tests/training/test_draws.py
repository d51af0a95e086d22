"""What a step draws follows from its key; what follows from no key is found out."""

import contextlib
import random
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from tepui.core.seeding import derive
from tepui.data import Batch
from tepui.methods import GSAM, SAM, SED, DeepEnsemble
from tepui.training import recording
from tepui.training.coupled import joint_gradient
from tepui.training.draws import Draws, drawing_from, rehearsed
from tepui.training.foreign_draws import foreign_draws, streams_kept
from tepui.training.recording import NotCapturable, Recording, record
from training.cases import (
    CLASSES,
    StoppedError,
    fitted,
    global_states,
    member_of,
    numbers,
    one_thread,
    stop_after,
)

single = pytest.fixture(autouse=True)(one_thread)

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


@dataclass
class Counter:
    seed: int = 0
    offset: int = 0


@dataclass
class StandIn:
    """What a generator of a GPU does with seeds and offsets, without the numbers."""

    state: Counter = field(default_factory=Counter)

    def manual_seed(self, seed):
        self.state.seed, self.state.offset = seed, 0
        return self

    def get_offset(self):
        return self.state.offset

    def clone_state(self):
        return StandIn(Counter(self.state.seed, self.state.offset))

    def graphsafe_get_state(self):
        return StandIn(self.state)

    def graphsafe_set_state(self, other):
        self.state = other.state

    def draw(self):
        self.state.offset += 4
        return self.state.seed, self.state.offset


class Drawing(nn.Module):
    """Draws twice from a stand-in at each call."""

    def __init__(self, generator, notes):
        super().__init__()
        self.layer = nn.Linear(4, CLASSES)
        self.draw, self.notes = generator.draw, notes

    def forward(self, x):
        self.notes += [self.draw(), self.draw()]
        return self.layer(x)


def batch():
    data = numbers(8)
    return Batch(data.inputs, data.targets, torch.arange(8))


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
        joint_gradient(SED(), members, (), (batch(), batch()))

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


class Noisy(nn.Module):
    """Adds noise from somewhere."""

    def __init__(self, draw, **held):
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
        self.draw = draw
        for name, value in held.items():
            setattr(self, name, value)

    def forward(self, x):
        return self.layer(x) + self.draw(self)


HELD = {
    "torch": lambda: Noisy(
        lambda m: torch.rand((), generator=m.own), own=torch.Generator()
    ),
    "random": lambda: Noisy(lambda m: m.own.random(), own=random.Random(1)),
    "numpy": lambda: Noisy(lambda m: m.own.random(), own=np.random.default_rng(1)),
    "Philox": lambda: Noisy(
        lambda m: m.own.random(), own=np.random.Generator(np.random.Philox(1))
    ),
    "RandomState": lambda: Noisy(lambda m: m.own.rand(), own=np.random.RandomState(1)),
    "list": lambda: Noisy(lambda m: m.own[1].random(), own=[None, random.Random(1)]),
    "dict": lambda: Noisy(lambda m: m.own["a"].random(), own={"a": random.Random(1)}),
    # So rarely that outputs do not show it.
    "rarely": lambda: Noisy(lambda m: m.own.random() > 2, own=random.Random(1)),
}


@pytest.mark.parametrize("name", HELD)
def test_streams_that_a_model_holds_are_found_and_put_back(name):
    model = nn.Sequential(HELD[name]())
    with streams_kept([model]):
        expected = model[0].draw(model[0])
    with streams_kept([model]):
        found = foreign_draws(member_of(model), batch())
        changed = model[0].draw(model[0])
    assert found.startswith("the model draws from a generator of its own (0.own")
    assert model[0].draw(model[0]) == expected
    assert name == "rarely" or changed != expected


def test_a_stream_that_is_held_but_not_drawn_from_is_no_obstacle():
    model = Noisy(lambda m: 0.0, own=torch.Generator(), other=random.Random(1))
    assert foreign_draws(member_of(model), batch()) is None


ELSEWHERE = torch.Generator().manual_seed(1)
GLOBAL = {
    "numpy's global state": lambda m: np.random.rand(),
    "Python's random": lambda m: random.random(),
    "draws on the CPU": lambda m: torch.rand(()),
    "passes of the model differ": lambda m: torch.rand((), generator=ELSEWHERE),
}


@pytest.mark.parametrize("reason", GLOBAL)
def test_draws_from_elsewhere_are_found(reason):
    model = Noisy(GLOBAL[reason])
    before = global_states()[:2]
    with streams_kept([model]):
        assert reason in foreign_draws(member_of(model), batch())
    assert global_states()[:2] == before


@pytest.mark.parametrize(
    "factory",
    [
        lambda: nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)),
        lambda: spectral_norm(nn.Linear(4, 3), n_power_iterations=1),
        lambda: Noisy(lambda m: 0.0, own=torch.default_generator),
    ],
)
def test_ordinary_models_repeat_themselves(factory):
    model = factory()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert foreign_draws(member_of(model), batch()) is None
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


class Broken(RuntimeError):  # noqa: N818
    """What the end of a broken capture raises."""


@pytest.fixture
def device(monkeypatch):
    """A stand-in for CUDA that captures by running, and cannot be drawn on."""
    generator = StandIn().manual_seed(99)

    @contextlib.contextmanager
    def graph(_, stream):
        device.capturing = True
        try:
            yield
        except ZeroDivisionError as error:
            # Python chains the two, as it does where ending the capture raises.
            raise Broken("capture invalidated") from error
        finally:
            device.capturing = False

    class Graph:
        def __init__(self):
            self.registered, self.replays = [], 0

        def register_generator_state(self, state):
            self.registered.append(state)

        def replay(self):
            self.replays += 1

    stream = SimpleNamespace(wait_stream=lambda other: None)
    device = SimpleNamespace(
        capturing=False,
        Stream=lambda: stream,
        stream=lambda chosen: contextlib.nullcontext(),
        current_stream=lambda: stream,
        current_device=lambda: 0,
        default_generators=(generator,),
        synchronize=lambda: None,
        CUDAGraph=Graph,
        graph=graph,
    )
    monkeypatch.setattr(recording.torch, "cuda", device)
    return device


def test_a_recording_registers_and_seeds_one_state_per_pass(device):
    generator, notes = device.default_generators[0], []
    member = member_of(Drawing(generator, notes))
    made = record(
        lambda: SAM(rho=0.1).gradient(member, batch()),
        [member],
        batch(),
        contextlib.nullcontext(),
    )
    assert len(made.graph.registered) == 2
    made.replay([SimpleNamespace(seed=11)], 4)
    seeds = {state.state.seed for state in made.graph.registered}
    assert seeds == {derive(11, "noise", 4)}
    assert made.graph.replays == 1
    assert generator.state.seed == 99


def test_a_recording_without_draws_seeds_nothing(device):
    member = member_of(nn.Linear(4, CLASSES))
    undone = []

    @contextlib.contextmanager
    def undoing():
        yield
        undone.append(device.capturing)

    made = record(lambda: member.gradient(batch()), [member], batch(), undoing())
    assert (made.draws, made.graph.registered, undone) == ((), [], [False])
    assert isinstance(made, Recording)


def test_a_capture_that_fails_says_what_failed_first(device):
    member = member_of(nn.Linear(4, CLASSES))
    generator = device.default_generators[0]

    def step():
        member.module.weight.grad = torch.zeros(CLASSES, 4)
        return 1 / 0 if device.capturing else member.gradient(batch())

    reason = r"capturing them failed \(ZeroDivisionError: division by zero\)"
    with pytest.raises(NotCapturable, match=reason):
        record(step, [member], batch(), contextlib.nullcontext())
    assert member.module.weight.grad is None
    assert (generator.state.seed, generator.state.offset) == (99, 0)


def test_an_error_while_warming_up_is_the_callers(device):
    member = member_of(nn.Linear(4, CLASSES))
    with pytest.raises(ZeroDivisionError):
        record(lambda: 1 / 0, [member], batch(), contextlib.nullcontext())


def test_draws_from_elsewhere_are_not_captured(device):
    member = member_of(Noisy(lambda m: random.random()))
    before = global_states()[:2]
    with pytest.raises(NotCapturable, match="draws from Python's random"):
        record(
            lambda: member.gradient(batch()),
            [member],
            batch(),
            contextlib.nullcontext(),
        )
    assert global_states()[:2] == before
