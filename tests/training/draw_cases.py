"""A stand-in for the generator of a GPU, and modules that draw."""

from dataclasses import dataclass, field

import torch
from torch import nn

from tepui.data import Batch
from training.cases import CLASSES, numbers


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
