"""What happens around a capture, on a stand-in for CUDA."""

import contextlib
import random
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tepui.core.seeding import derive
from tepui.methods import SAM
from tepui.training import graphs as recording
from tepui.training.graphs import NotCapturable, Recording, record
from training.cases import CLASSES, global_states, member_of
from training.draw_cases import Drawing, Noisy, StandIn, batch


class Broken(RuntimeError):  # noqa: N818
    """What the end of a broken capture raises."""


def given_back(device, name, index, pool):
    """Note what is given back; torch refuses what it has done itself."""
    if not device.forgets:
        raise RuntimeError("not recording")
    device.given_back.append((name, index, pool))


@pytest.fixture
def device(monkeypatch):
    """A stand-in for CUDA that captures by running, and cannot be drawn on."""
    generator = StandIn().manual_seed(99)

    @contextlib.contextmanager
    def graph(graph, pool, stream):
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

        def reset(self):
            pass

        def replay(self):
            self.replays += 1

    stream = SimpleNamespace(wait_stream=lambda other: None)
    device = SimpleNamespace(
        capturing=False,
        forgets=True,
        given_back=[],
        stream=lambda chosen: contextlib.nullcontext(),
        current_stream=lambda: stream,
        current_device=lambda: 0,
        default_generators=(generator,),
        synchronize=lambda: None,
        get_rng_state=torch.get_rng_state,
        CUDAGraph=Graph,
        graph_pool_handle=lambda: (0, 7),
        graph=graph,
    )
    for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"):
        monkeypatch.setattr(torch._C, name, partial(given_back, device, name))
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
        device.current_stream(),
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

    stream = device.current_stream()
    step = partial(member.gradient, batch())
    made = record(step, [member], batch(), undoing(), stream)
    assert (made.draws, made.graph.registered, undone) == ((), [], [False])
    assert isinstance(made, Recording)


@pytest.mark.parametrize("forgets", [True, False])
def test_a_capture_that_fails_says_what_failed_first(device, forgets):
    device.forgets = forgets
    member = member_of(nn.Linear(4, CLASSES))
    generator = device.default_generators[0]

    def step():
        member.module.weight.grad = torch.zeros(CLASSES, 4)
        return 1 / 0 if device.capturing else member.gradient(batch())

    reason = r"capturing them failed \(ZeroDivisionError: division by zero\)"
    stream = device.current_stream()
    with pytest.raises(NotCapturable, match=reason):
        record(step, [member], batch(), contextlib.nullcontext(), stream)
    assert member.module.weight.grad is None
    expected = ["_cuda_endAllocateToPool", "_cuda_releasePool"] if forgets else []
    assert device.given_back == [(name, 0, (0, 7)) for name in expected]
    assert (generator.state.seed, generator.state.offset) == (99, 0)


def test_an_error_while_warming_up_is_the_callers(device):
    member = member_of(nn.Linear(4, CLASSES))
    undoing, stream = contextlib.nullcontext(), device.current_stream()
    with pytest.raises(ZeroDivisionError):
        record(lambda: 1 / 0, [member], batch(), undoing, stream)


def test_draws_from_elsewhere_are_not_captured(device):
    member = member_of(Noisy(lambda m: random.random()))
    before = global_states()[:2]
    with pytest.raises(NotCapturable, match="draws from Python's random"):
        record(
            lambda: member.gradient(batch()),
            [member],
            batch(),
            contextlib.nullcontext(),
            device.current_stream(),
        )
    assert global_states()[:2] == before
