"""Small data, a small network and short runs that methods are tried on."""

from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from tepui.core.seeding import generator
from tepui.core.storage import same_bits
from tepui.data import Arrays
from tepui.ensembles import Ensemble
from tepui.methods import Method
from tepui.testing.expecting import Subject
from tepui.training import SGD, Run, fit
from tepui.training.member import TrainingMember
from tepui.training.runner import Plan, Runner

SAMPLES, SIZE, CLASSES, BATCH = 26, 4, 3, 7
OPTIMIZER = SGD(lr=0.05)
LONGEST = 20  # epochs of the longest run


def images(seed: int = 0, dtype: torch.dtype = torch.float32) -> Arrays:
    """Return images that can be told apart by their brightness."""
    stream = generator(seed, "testing", "images")
    labels = torch.arange(SAMPLES) % CLASSES
    noise = torch.rand(SAMPLES, 1, SIZE, SIZE, generator=stream, dtype=dtype)
    return Arrays((noise + labels[:, None, None, None]) / CLASSES, labels)


def network() -> nn.Sequential:
    """Return a network with BatchNorm and dropout, where every pass leaves a trace."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(SIZE * SIZE, 8),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Dropout(0.25),
        nn.Linear(8, CLASSES),
    )


def plain_network() -> nn.Sequential:
    """Return a network without BatchNorm and dropout."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(SIZE * SIZE, 8), nn.ReLU(), nn.Linear(8, CLASSES)
    )


def phases(checked: Subject, method: Method) -> list[str]:
    """Return the phases of the longest run, in order."""
    names: list[str] = []
    for epoch in range(LONGEST):
        with checked.must_manage(f"name the phase of every of {LONGEST} epochs"):
            name = method.phase(epoch, LONGEST)
        checked.must("name phases by strings", isinstance(name, str), repr(name))
        names.append(name)
    return [*dict.fromkeys(names)]


def fitted(
    method: Method,
    factory: Callable[[], nn.Module] = network,
    *,
    members: int = 3,
    seed: int | list[int] = 3,
    dtype: torch.dtype = torch.float32,
    **how: Any,
) -> Run:
    """Train a fresh ensemble and return the run."""
    ensemble = Ensemble.build(lambda: factory().to(dtype), members=members, seed=seed)
    if method.needs_unlabeled:
        how["unlabeled"] = images(1, dtype)
    settings = {
        "epochs": members if method.successive else 2,
        "batch_size": BATCH,
        "optimizer": OPTIMIZER,
        "device": "cpu",
        "progress": "none",
        **how,
    }
    return fit(ensemble, images(dtype=dtype), method=method, **settings)


def driven(
    method: Method,
    make_runner: Callable[[Plan, Sequence[TrainingMember]], Runner],
    factory: Callable[[], nn.Module] = network,
) -> Run:
    """Train as :func:`fitted` does, for longer and by a runner of choice."""

    def runner_of(name: str, plan: Plan, members: Sequence[TrainingMember]) -> Runner:
        return make_runner(plan, members)

    with patch("tepui.training.train.runner_of", runner_of):
        return fitted(method, factory, epochs=4)


def expect_same_runs(
    checked: Subject, rule: str, first: Run, second: Run, *, signed_zeros: bool = True
) -> None:
    """Raise unless two runs ended with the same bits and had the same losses."""
    one, other = (
        {
            name: t if signed_zeros else t + 0
            for name, t in run.ensemble.state_dict().items()
        }
        for run in (first, second)
    )
    changed = [key for key in one if not same_bits({key: one[key]}, {key: other[key]})]
    checked.must(rule, not changed, f"other bits in {changed}")
    losses = [
        [(record.loss, record.learning_rate) for record in run.history]
        for run in (first, second)
    ]
    checked.must(rule, losses[0] == losses[1], "other losses")
