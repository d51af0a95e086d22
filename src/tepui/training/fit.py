"""Training an ensemble: one function that ties data, method and optimizer together."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch.utils.data import Dataset

from tepui.core.checks import one_of, require
from tepui.core.per_member import for_member
from tepui.data.arrays import Batch
from tepui.data.augment import Augmentation
from tepui.data.class_names import class_names
from tepui.data.loading import as_arrays, in_order, length
from tepui.data.splits import split
from tepui.ensembles.ensemble import Ensemble, load_into
from tepui.losses import Loss, cross_entropy
from tepui.methods.base import CoupledMethod, ExchangingMethod, Method
from tepui.modules.pruning import Prune, add_masks
from tepui.modules.state import description
from tepui.training.batches import source_of, steps_per_epoch
from tepui.training.epochs import Training
from tepui.training.exchange import Exchange, LocalExchange
from tepui.training.interrupt import Interruption
from tepui.training.numerics import Precision, numerics_of
from tepui.training.optimizer import SGD, Optimizer
from tepui.training.prepare import (
    RunnerName,
    break_symmetry,
    check_labels,
    check_unlabeled,
    classes_of,
    compiles,
    learner_of,
    loss_of,
    optimizer_of,
    runner_of,
    to_device,
)
from tepui.training.progress import Style, showing
from tepui.training.run_folder import (
    EpochRecord,
    Run,
    RunFolder,
    fingerprint,
    to_jsonable,
)
from tepui.training.runner import Plan
from tepui.training.schedule import MultiStep, Schedule

Keep = Literal["last", "best"]


def fit(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    *,
    method: Method,
    epochs: int,
    batch_size: int = 128,
    loss: Loss = cross_entropy,
    optimizer: Optimizer | None = None,
    schedule: Schedule | None = None,
    augment: Sequence[Augmentation] = (),
    validation: Dataset[Any] | float | None = None,
    unlabeled: Dataset[Any] | None = None,
    keep: Keep = "last",
    accumulate: int = 1,
    clip_norm: float | None = None,
    prune: Prune | None = None,
    device: str | torch.device | None = None,
    precision: Precision = "auto",
    deterministic: bool = False,
    runner: RunnerName = "auto",
    compile: bool | None = None,
    workers: int = 0,
    callbacks: Sequence[Callable[[EpochRecord], None]] = (),
    out: str | Path | None = None,
    resume: bool = False,
    checkpoint_every: int = 1,
    progress: Style = "auto",
    exchange: Exchange | None = None,
    sequential: bool = False,
) -> Run:
    """Train an ensemble in place.

    Args:
        ensemble: What to train; its members move to the device.
        dataset: A map-style data set of ``(x, y)``; ``x`` may be a dict of tensors. A
            data set held in tensors goes to the device once.
        method: How to train, such as ``DeepEnsemble()`` or ``SAM(rho=0.1)``.
        epochs: How long.
        batch_size: Samples per step and member.
        loss: Returns one loss per sample.
        optimizer: ``SGD(...)``, ``AdamW(...)``, or any callable from parameters to a
            torch optimizer. SGD with learning rate 0.1 by default.
        schedule: ``MultiStep(...)``, ``Cosine(...)`` or ``Constant(...)``. A tenth at
            half and at three quarters of the run by default.
        augment: Random changes of image batches, in order.
        validation: A data set, or the share of ``dataset`` to hold out for it.
        unlabeled: Data whose targets are not read, for methods that make members
            disagree on them (``A2D``, ``DivDis``).
        keep: ``"last"`` weights, or each member's ``"best"`` by validation loss.
        accumulate: Split each batch into this many parts to save memory.
        clip_norm: Bound on the norm of the gradient.
        prune: ``Prune(sparsity=0.9)`` removes the smallest weights of every member.
        device: Where to train; a GPU if there is one.
        precision: ``"float32"``, ``"tf32"``, ``"bfloat16"``; ``"auto"`` is bfloat16
            on a GPU and float32 elsewhere.
        deterministic: Choose only algorithms that repeat to the bit.
        runner: ``"graph"`` replays captured steps on a GPU, all members side by side;
            ``"eager"`` runs members in turn; ``"auto"`` takes graphs where it can.
        compile: Compile the members' forward passes; None does so on a GPU when the
            run is long enough to repay it.
        workers: Processes that load a data set not held in tensors.
        callbacks: Called with the record of every epoch.
        out: A run folder for configuration, metrics, checkpoints and the ensemble.
        resume: Continue the run in ``out``, to the same bits; start it if new.
        checkpoint_every: Epochs between checkpoints.
        progress: ``"bar"``, ``"lines"``, ``"none"``; ``"auto"`` fits the terminal.
        exchange: How members in other processes are reached; all are here by default.
        sequential: Keep only one member at a time on the device, the others in host
            memory; slower, to the same sets and weights.

    Returns:
        The run: trained ensemble, history and folder.

    Raises:
        ValueError: If an argument breaks its rule.
        FileExistsError: If ``out`` holds something and ``resume`` is false.
        TrainingDiverged: If a loss becomes infinite or NaN.

    Example:
        >>> import tepui
        >>> from tepui.methods import SAM
        >>> data = tepui.data.Arrays(torch.randn(64, 4), torch.randint(3, (64,)))
        >>> ensemble = tepui.Ensemble.build(lambda: torch.nn.Linear(4, 3), members=2)
        >>> run = fit(ensemble, data, method=SAM(), epochs=2, progress="none")
        >>> len(run.history)
        2
    """
    require(isinstance(method, Method), "method", "be a method, such as SAM()", method)
    _check(epochs, batch_size, keep, accumulate, checkpoint_every, validation)
    require(clip_norm is None or clip_norm > 0, "clip_norm", "be positive", clip_norm)
    _check_coupling(method, len(ensemble), unlabeled)
    one_of("runner", runner, get_args(RunnerName))
    one_of("progress", progress, get_args(Style))
    require(
        accumulate == 1 or not isinstance(method, CoupledMethod),
        "accumulate",
        "be 1 where members are coupled inside the loss",
        accumulate,
    )
    require(
        not (sequential and isinstance(method, CoupledMethod)),
        "sequential",
        "be false where members are coupled inside the loss",
        sequential,
    )
    optimizer = SGD() if optimizer is None else optimizer
    schedule = MultiStep() if schedule is None else schedule
    exchange = LocalExchange() if exchange is None else exchange
    folder = None if out is None else RunFolder(out)
    train, held_out = _split(dataset, validation)
    threads = folder.threads() if folder is not None and resume else None
    numerics = numerics_of(device, precision, deterministic, threads)
    config: dict[str, Any] = {}
    if folder is not None:
        asked = {
            "method": method,
            "epochs": epochs,
            "batch_size": batch_size,
            "loss": loss,
            "optimizer": optimizer,
            "schedule": schedule,
            "augment": augment,
            "keep": keep,
            "accumulate": accumulate,
            "clip_norm": clip_norm,
            "prune": prune,
            "seeds": ensemble.seeds,
            "runner": runner,
            "compile": compile,
            "device": numerics.device.type,
            "precision": numerics.precision,
            "deterministic": deterministic,
            "threads": numerics.threads,
        }
        config = {name: to_jsonable(value) for name, value in asked.items()}
        config["models"] = [description(member) for member in ensemble.members]
        config["data"] = fingerprint(train) | {
            "class": type(dataset).__qualname__,
            "classes": list(class_names(train)),
        }
        config["unlabeled"] = None if unlabeled is None else fingerprint(unlabeled)
        config["validation"] = None if held_out is None else fingerprint(held_out)
        folder.check(config, resume=resume)
    if prune is not None:
        for index, member in enumerate(ensemble.members):
            for_member(prune, index, len(ensemble))
            add_masks(member)
    rest = torch.device("cpu") if sequential else numerics.device
    to_device(ensemble, rest)
    if folder is not None and folder.finished:
        return _finished(ensemble, folder)
    coupled = isinstance(method, CoupledMethod)
    classes = classes_of(ensemble, train, loss, rest, coupled=coupled)
    if held_out is not None:
        check_labels("validation", held_out, classes, train)
    source = source_of(train, augment, numerics.device, workers, classes)
    beside = None
    if unlabeled is not None:
        check_unlabeled(ensemble, unlabeled, rest)
        beside = source_of(unlabeled, augment, numerics.device, workers, None)
    steps = steps_per_epoch(source.samples, batch_size)
    _check_length(method, len(ensemble), epochs, steps)
    compiled = compiles(compile, numerics, steps * epochs * len(ensemble))
    learners = []
    for index in exchange.owned(len(ensemble)):
        learner = learner_of(
            ensemble.members[index],
            index=index,
            seed=ensemble.seeds[index],
            method=for_member(method, index, len(ensemble)),
            optimizer=optimizer_of(optimizer, index, len(ensemble)),
            loss=loss_of(loss, index, len(ensemble)),
            steps=steps,
            numerics=numerics,
            compiled=compiled,
            accumulate=accumulate,
            clip_norm=clip_norm,
            home=rest if sequential else None,
        )
        learners.append(learner)
    if coupled:
        break_symmetry(learners)
        for learner in learners:
            learner.losses = learners[0].losses  # one loss for all
    if isinstance(method, ExchangingMethod):
        method.exchanges_before(0, epochs)  # refuses a plan that does not fit the run

    def validation_batches() -> Iterator[Batch]:
        assert held_out is not None
        return in_order(
            held_out,
            batch_size,
            device=numerics.device,
            workers=workers,
            classes=classes,
        )

    interruption = Interruption()
    with ExitStack() as stack:
        stack.enter_context(numerics.applied())
        stack.enter_context(torch.random.fork_rng())
        shown = stack.enter_context(
            showing(
                progress,
                type(method).__name__,
                epochs=epochs,
                steps=steps * epochs * len(learners),
            )
        )
        plan = Plan(
            source=source,
            unlabeled=beside,
            batch_size=batch_size,
            epochs=epochs,
            schedule=schedule,
            advance=shown.advance,
            stopping=lambda: interruption.requested,
        )
        training = Training(
            learners=learners,
            seeds=ensemble.seeds,
            runner=runner_of(runner, plan, learners),
            dataset=train,
            validation=None if held_out is None else validation_batches,
            prune=prune,
            keeps_best=keep == "best",
            exchange=exchange,
            folder=folder,
            checkpoint_every=checkpoint_every,
            callbacks=callbacks,
            progress=shown,
            interruption=interruption,
        )
        if folder is not None:
            folder.begin(config)
        training.restore()
        shown.advance(training.steps_done())
        if folder is not None:
            stack.enter_context(interruption.listening())
        training.run()
        for learner in learners:
            training.finish(learner)
    summary = method.summary([learner.member.state for learner in learners])
    best_epochs = tuple(learner.best.epoch for learner in learners if keep == "best")
    if folder is not None:
        folder.write_outcome(best_epochs, summary)
        ensemble.save(folder.path)
    if interruption.requested:
        interruption.leave()
    path = None if folder is None else folder.path
    return Run(ensemble, tuple(training.history), best_epochs, summary, path)


def _check(
    epochs: int,
    batch_size: int,
    keep: Keep,
    accumulate: int,
    checkpoint_every: int,
    validation: Dataset[Any] | float | None,
) -> None:
    require(epochs > 0, "epochs", "be positive", epochs)
    require(batch_size > 0, "batch_size", "be positive", batch_size)
    require(accumulate > 0, "accumulate", "be positive", accumulate)
    require(checkpoint_every > 0, "checkpoint_every", "be positive", checkpoint_every)
    one_of("keep", keep, get_args(Keep))
    require(
        keep == "last" or validation is not None,
        "validation",
        'be given to keep the "best" weights',
        None,
    )


def _check_coupling(
    method: Method, members: int, unlabeled: Dataset[Any] | None
) -> None:
    wanted, name = method.needs_unlabeled, type(method).__name__
    require(
        wanted or unlabeled is None,
        "unlabeled",
        f"be None for {name}, which uses no such data",
        type(unlabeled).__name__,
    )
    require(
        not wanted or unlabeled is not None,
        "unlabeled",
        f"be a data set for {name}, whose members disagree on it (SED and methods "
        "with independent members need none)",
        None,
    )
    if isinstance(method, CoupledMethod):
        method.check_members(members)


def _check_length(method: Method, members: int, epochs: int, steps: int) -> None:
    """Refuse a run that would end before every coupled member had a turn."""
    least = method.least_steps(members) if isinstance(method, CoupledMethod) else 1
    require(
        epochs * steps >= least,
        "epochs",
        f"give {type(method).__name__} at least {least} steps, so that each of its "
        f"{members} members can have a turn",
        f"{epochs} of {steps} step(s)",
    )


def _split(
    dataset: Dataset[Any], validation: Dataset[Any] | float | None
) -> tuple[Dataset[Any], Dataset[Any] | None]:
    """Return training and validation data; the split is the same for all members."""
    length(dataset)
    if isinstance(validation, float | int):
        require(0 < validation < 1, "validation", "be a share in (0, 1)", validation)
        return split(as_arrays(dataset) or dataset, validation, seed=0)
    if validation is not None:
        length(validation)
    return dataset, validation


def _finished(ensemble: Ensemble, folder: RunFolder) -> Run:
    """Return a run that ended before, its weights put into ``ensemble``."""
    load_into(ensemble, folder.path)
    saved = folder.load_checkpoint()
    assert saved is not None, f"{folder.path} holds an ensemble but no checkpoint"
    return Run(ensemble, saved.history, *folder.outcome(), folder.path)
