"""Small data, a small network and short runs that methods are tried on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from tepui.core.seeding import generator
from tepui.core.storage import same_bits
from tepui.data import Arrays
from tepui.ensembles import Ensemble
from tepui.methods import Method
from tepui.testing.expecting import expect
from tepui.training import SGD, ExecutionSpec, LocalExchange, Run, TrainingSpec, fit
from tepui.training.batches import source_of
from tepui.training.epochs import Training
from tepui.training.interrupt import Interruption
from tepui.training.numerics import numerics_of
from tepui.training.prepare import members_of
from tepui.training.progress import Progress
from tepui.training.runner import Plan, Runner

SAMPLES, SIZE, CLASSES, BATCH = 26, 4, 3, 7
OPTIMIZER = SGD(lr=0.05)


def images(seed: int = 0, dtype: torch.dtype = torch.float32) -> Arrays:
    """Return images that can be told apart by their brightness."""
    stream = generator(seed, "testing", "images")
    labels = torch.arange(SAMPLES) % CLASSES
    noise = torch.rand(SAMPLES, 1, SIZE, SIZE, generator=stream, dtype=dtype)
    return Arrays((noise + labels[:, None, None, None]) / CLASSES, labels)


def network() -> nn.Sequential:
    """Return a network with BatchNorm and dropout, of which passes leave traces."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(SIZE * SIZE, 8),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.Dropout(0.25),
        nn.Linear(8, CLASSES),
    )


def plain_network() -> nn.Sequential:
    """Return a network without either."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(SIZE * SIZE, 8), nn.ReLU(), nn.Linear(8, CLASSES)
    )


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
    return fit(
        ensemble,
        images(dtype=dtype),
        method=method,
        **{
            "epochs": 2,
            "batch_size": BATCH,
            "optimizer": OPTIMIZER,
            "device": "cpu",
            "progress": "none",
            **how,
        },
    )


def driven(
    method: Method,
    make_runner: Callable[[Plan], Runner],
    factory: Callable[[], nn.Module] = network,
    *,
    advance: Callable[[Training], None] = lambda training: None,
    epochs: int = 4,
) -> Training:
    """Train as ``fit`` does, but by a runner of choice; return the ended run."""
    data = images()
    ensemble = Ensemble.build(factory, members=3, seed=3)
    spec = TrainingSpec(
        method=method, epochs=epochs, batch_size=BATCH, optimizer=OPTIMIZER
    )
    numerics = numerics_of("cpu", "float32", deterministic=False)
    place, unlabeled = numerics.device, None
    if method.needs_unlabeled:
        unlabeled = source_of(images(1), (), place, 0, None)
    plan = Plan(
        source=source_of(data, (), place, 0, CLASSES),
        unlabeled=unlabeled,
        batch_size=BATCH,
        epochs=epochs,
        schedule=spec.schedule,
        advance=lambda steps: advance(training),
        stopping=lambda: False,
    )
    training = Training(
        members=members_of(
            ensemble, range(3), spec, ExecutionSpec(), numerics, len(data)
        ),
        seeds=ensemble.seeds,
        runner=make_runner(plan),
        dataset=data,
        validation=None,
        prune=None,
        keeps_best=False,
        exchange=LocalExchange(),
        folder=None,
        checkpoint_every=1,
        callbacks=(),
        progress=Progress(),
        interruption=Interruption(),
    )
    with numerics.applied(), torch.random.fork_rng():
        training.restore()
        training.run()
        for member in training.members:
            training.finish(member)
    return training


@contextmanager
def refusals_told(name: str, rule: str) -> Iterator[None]:
    """Tell what training refuses inside the block as a broken promise."""
    try:
        yield
    except (RuntimeError, TypeError, ValueError, AttributeError) as error:
        kind = type(error).__name__
        raise AssertionError(f"{name} must {rule}, got {kind}: {error}") from error


def weights(run: Run | Training) -> dict[str, Tensor]:
    """Return the tensors of all members."""
    if isinstance(run, Run):
        return dict(run.ensemble.state_dict())
    return {
        # Momentum that starts as zero, and not as nothing, may turn -0 into 0.
        f"members.{member.index}.{name}": tensor + 0
        for member in run.members
        for name, tensor in member.module.state_dict().items()
    }


def expect_same_runs(
    first: Run | Training, second: Run | Training, name: str, rule: str
) -> None:
    """Raise unless two runs ended with the same bits and had the same losses."""
    one, other = weights(first), weights(second)
    changed = [key for key in one if not same_bits({key: one[key]}, {key: other[key]})]
    expect(not changed, name, rule, f"other bits in {changed}")
    losses = [
        [(record.loss, record.learning_rate) for record in run.history]
        for run in (first, second)
    ]
    expect(losses[0] == losses[1], name, rule, "other losses")
