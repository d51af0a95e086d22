"""Evaluations that processes share, and what one of them makes of each."""

import os
import warnings
from pathlib import Path

import torch

import tepui
from tepui.data import Arrays
from tepui.training import exchange_here

SIZE = 10  # of a batch
CASES = {
    "several batches": {"samples": 75},
    "fewer batches than ranks": {"samples": 7},
    "data that load samples": {"samples": 31, "loaded": True},
    "calibrated": {"samples": 31, "calibrated": True},
}


def sizes(samples):
    """Return how many samples each data set of a case has, the natural shift last."""
    return (samples, samples, samples, samples // 2 + 1)


class Loaded(torch.utils.data.Dataset):
    """Not held in tensors; one sample can be broken, on one rank."""

    def __init__(self, arrays, broken=None):
        self.arrays, self.broken = arrays, broken

    def __len__(self):
        return len(self.arrays)

    def __getitem__(self, index):
        if index == self.broken:
            raise OSError("cannot be read")
        return self.arrays[index]


class Counting(torch.nn.Module):
    """A linear model that knows how many batches it saw."""

    seen = 0

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)

    def forward(self, x):
        Counting.seen += 1
        return self.linear(x)


def steepness(logits, labels):
    return logits.std(-1).mean()


def data(samples, seed, loaded=False):
    stream = torch.Generator().manual_seed(seed)
    arrays = Arrays(
        torch.randn(samples, 6, generator=stream), torch.arange(samples) % 4
    )
    return Loaded(arrays) if loaded else arrays


def evaluated(out, exchange=None, *, samples, loaded=False, calibrated=False):
    """Evaluate; return the scores and how many batches a member saw here."""
    ensemble = tepui.Ensemble.build(Counting, members=3, seed=5)
    sets = [data(size, seed, loaded) for seed, size in enumerate(sizes(samples))]
    if calibrated:
        held_out = data(40, 9).inputs
        right = ensemble.predict(held_out).labels
        answers = torch.where(torch.arange(40) % 4 == 0, (right + 1) % 4, right)
        ensemble.calibrate(Arrays(held_out, answers))
        ensemble.conformal(Arrays(held_out, answers))
    Counting.seen = 0
    found = tepui.evaluate(
        ensemble,
        sets[0],
        shifted={("fog", 1): sets[1], "sketch": sets[3]},
        ood={"other": sets[2]},
        metrics={"steepness": steepness},
        batch_size=SIZE,
        out=out,
        exchange=exchange,
    )
    return found.document(), Counting.seen // 3


# What the first and the second process are told.
DIFFERENCES = {
    r"natural.sketch.\w+": tuple({"shifted": {"sketch": data(40, n)}} for n in (0, 1)),
    r"copies.0.\w+": tuple({"shifted": {("fog", 1): data(n, 0)}} for n in (40, 1031)),
    "rule": ({"rule": "probability"}, {"rule": "vote"}),
    "batch_size": ({"batch_size": 5}, {"batch_size": 6}),
}


def said(call):
    try:
        call()
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def rank(folder):
    """Evaluate as one of several processes; save what was found and said."""
    torch.set_num_threads(1)
    exchange, number = exchange_here(), int(os.environ["RANK"])
    found = {
        name: evaluated(Path(folder) / name, exchange, **case)
        for name, case in CASES.items()
    }
    ensemble = tepui.Ensemble.build(Counting, members=1, seed=number)
    test = data(40, 0)
    found["other weights"] = said(
        lambda: tepui.evaluate(ensemble, test, exchange=exchange)
    )
    same = tepui.Ensemble.build(Counting, members=1, seed=0)
    for name, told in DIFFERENCES.items():
        found[name] = said(
            lambda how=told[number == 1]: tepui.evaluate(
                same, test, **how, exchange=exchange
            )
        )
    dead = tepui.Ensemble.build(Counting, members=3, seed=0)
    dead.members[0].linear.weight.data *= 1000
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        tepui.evaluate(dead, test, exchange=exchange)
    found["warned"] = len(warned)
    broken = Loaded(test, 15 if number == 1 else None)
    found["broken"] = said(
        lambda: tepui.evaluate(same, broken, batch_size=SIZE, exchange=exchange)
    )
    torch.save(found, Path(folder) / f"{number}.pt")
