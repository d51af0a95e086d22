"""Draws that follow from no key are found before a step is captured."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from tepui.training.foreign_draws import Watch, foreign_draws, streams_kept
from training.cases import global_states, member_of
from training.draw_cases import Noisy, batch

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
    "nested": lambda: Noisy(
        lambda m: m.own[0]["a"].random(), own=[{"a": random.Random(1)}]
    ),
    "object": lambda: Noisy(
        lambda m: m.own.inside.random(), own=SimpleNamespace(inside=random.Random(1))
    ),
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


def test_a_watch_tells_what_was_drawn_from_since():
    model = nn.Sequential(HELD["object"]())
    watch = Watch([model])
    assert watch.drawn_from() is None
    model[0].draw(model[0])
    assert watch.drawn_from() == "a generator of its own (0.own.inside)"
    watch = Watch([model])
    with streams_kept([model]):
        random.random()
        assert watch.drawn_from() == "Python's random"


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


def test_recurrent_dropout_comes_from_elsewhere():
    for dropout, told in ((0.0, False), (0.5, True)):
        layers = nn.LSTM(4, 3, num_layers=2, dropout=dropout)
        reason = foreign_draws(member_of(Recurrent(layers)), batch())
        assert (reason is not None and "recurrent layers" in reason) == told


def test_a_model_that_means_to_repeat_its_draws_is_told(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_rng_state", torch.get_rng_state)
    kept = torch.cuda.get_rng_state
    model = Noisy(lambda m: float(torch.cuda.get_rng_state().sum() * 0))
    reason = foreign_draws(member_of(model), batch())
    assert reason is not None
    assert "activation checkpointing" in reason
    assert torch.cuda.get_rng_state is kept


class Recurrent(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, x):
        return self.layers(x)[0]
