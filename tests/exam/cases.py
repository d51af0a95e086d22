"""Small data, networks and methods: three classes, no option at its default."""

from dataclasses import dataclass

import torch
from torch import nn

from exam.names import command, public

CLASSES = 3


def rows(samples=96, features=6, seed=0):
    """Return standard normal rows around three means and their labels."""
    stream = torch.Generator().manual_seed(seed)
    means = torch.tensor([[1.0, 0, 0], [0, 1.5, 0], [0, 0, -1.25]]).repeat(1, 2)
    labels = torch.randint(0, CLASSES, (samples,), generator=stream)
    noise = torch.randn(samples, features, generator=stream)
    return means[:, :features][labels] + 0.8 * noise, labels


def table(samples=96, seed=0):
    """Return a data set of rows."""
    return public("data.Arrays")(*rows(samples, seed=seed))


def images(samples=60, size=8, seed=0):
    """Return a data set of colored images in bytes, brighter from class to class."""
    stream = torch.Generator().manual_seed(seed)
    labels = torch.arange(samples) % CLASSES
    noise = torch.randint(0, 90, (samples, 3, size, size), generator=stream)
    bright = torch.tensor([30, 80, 140])[labels][:, None, None, None]
    normalize = public("data.Normalize")((0.4, 0.5, 0.6), (0.2, 0.3, 0.25))
    return public("data.Arrays")((noise + bright).to(torch.uint8), labels, normalize)


def network():
    """Return a small network for rows, with dropout and batch statistics."""
    return nn.Sequential(
        nn.Linear(6, 12),
        nn.BatchNorm1d(12),
        nn.Tanh(),
        nn.Dropout(0.15),
        nn.Linear(12, CLASSES),
    )


@dataclass(frozen=True)
class Outcome:
    """What a command printed, wrote to its error stream, and returned."""

    status: int
    out: str
    err: str


def run(capsys, *words):
    """Run the command ``tepui`` in this process and return its outcome."""
    capsys.readouterr()
    try:
        status = command()([*map(str, words)])
    except SystemExit as left:
        status = left.code
    said = capsys.readouterr()
    return Outcome(int(status or 0), said.out, said.err)
