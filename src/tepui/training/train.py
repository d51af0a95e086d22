"""Carrying out a run: check, prepare, run, conclude, and warn of its members."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.provenance import masked
from tepui.core.spec import document
from tepui.core.storage import finite_or_none
from tepui.core.types import check_types
from tepui.core.warning import warn
from tepui.data.arrays import Batch, to_tensor
from tepui.data.augment import Augmentation, PerMember
from tepui.data.identity import fingerprint
from tepui.data.labels import class_names
from tepui.data.loading import in_order, targets_of
from tepui.data.mixing import Mixing
from tepui.data.preparation import preparation_of
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.loading import load_into
from tepui.losses import CrossEntropy, Loss
from tepui.methods.base import Method
from tepui.methods.coupled import CoupledMethod
from tepui.modules.pruning import Prune, add_masks
from tepui.modules.sharing import apart, frozen_names, share_frozen
from tepui.modules.state import tensor_state
from tepui.tasks import task_of
from tepui.training.batches import BatchSource, source_of, steps_per_epoch
from tepui.training.checks import absent_remark, asked_for, check_run
from tepui.training.epochs import Training
from tepui.training.exchange import Exchange, LocalExchange
from tepui.training.history import (
    Callbacks,
    Clock,
    EarlyStopping,
    History,
    Outcome,
    Told,
)
from tepui.training.member import TrainingMember
from tepui.training.numerics import Precision, numerics_of
from tepui.training.optimizer import SGD, Cosine, Optimizer, Schedule
from tepui.training.prepare import Order, members_of, runner_of
from tepui.training.progress import Style, remark, showing
from tepui.training.ranks import exchange_here
from tepui.training.run import Run
from tepui.training.run_folder import (
    Checkpoint,
    RunFolder,
    check_agreement,
    check_settings,
    run_config,
)
from tepui.training.runner import Interruption, Plan, Stopping
from tepui.training.spec import ExecutionSpec, Keep, RunnerName, TrainingSpec

PLAIN_EXECUTION = ExecutionSpec()
PLAIN_LOSS, PLAIN_SGD, COSINE = CrossEntropy(), SGD(), Cosine()
R = TypeVar("R")
Validating = Callable[[], Iterator[Batch]]


def fit(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    *,
    method: Method,
    epochs: int,
    batch_size: int = 64,
    loss: Loss = PLAIN_LOSS,
    optimizer: Optimizer = PLAIN_SGD,
    schedule: Schedule = COSINE,
    augment: Sequence[Augmentation] | Sequence[Sequence[Augmentation]] | PerMember = (),
    validation: Dataset[Any] | float | None = None,
    unlabeled: Dataset[Any] | None = None,
    sample_weights: Tensor | Sequence[float] | None = None,
    keep: Keep = "last",
    early_stopping: EarlyStopping | None = None,
    accumulate: int = 1,
    clip_norm: float | None = None,
    prune: Prune | None = None,
    ema: float | None = None,
    part_at: int | None = None,
    device: str | torch.device | None = None,
    precision: Precision = "auto",
    deterministic: bool = False,
    runner: RunnerName = "auto",
    compile: bool | None = None,
    workers: int = 0,
    offload: bool = False,
    data_parallel: int = 1,
    callbacks: Sequence[Told] = (),
    out: str | Path | None = None,
    resume: bool = False,
    branch_from: str | Path | None = None,
    checkpoint_every: int = 1,
    stop_after: int | None = None,
    progress: Style = "auto",
    exchange: Exchange | None = None,
) -> Run:
    """Train an ensemble in place.

    Args:
        ensemble: What to train; its members move to the device.
        dataset: A map-style data set of ``(x, y)``; ``x`` may be a dict of tensors. A
            data set held in tensors goes to the device once.
        method: How to train, such as ``DeepEnsemble()`` or ``SAM(rho=0.1)``.
        epochs: Length of the run.
        batch_size: Samples per step and member.
        loss: Returns one loss per sample.
        optimizer: ``SGD(...)``, ``AdamW(...)``, or any callable from parameters to a
            torch optimizer. SGD with learning rate 0.1 by default.
        schedule: Learning rate over time: ``Cosine(...)``, ``MultiStep(...)``,
            ``Constant(...)``, or a class of your own that derives from ``Schedule``.
        augment: Random changes of batches, in order; or one list of them for each
            member, as ``PerMember(...)`` has them. The last step may be ``Mixup(...)``
            or ``CutMix(...)``, which mix samples of a batch, and rows of a table too.
        validation: A data set, or the share of ``dataset`` to hold out for it.
        unlabeled: Data whose targets are not read, for methods that make members
            disagree on them (``A2D``, ``DivDis``). Only labeled samples of the same
            kind can tell whether that helps there, and with which weight.
        sample_weights: A factor on the training loss of every sample of ``dataset``.
            Factors with a mean of 1 leave the learning rate its meaning.
        keep: ``"last"`` weights, or each member's ``"best"`` by validation loss.
        early_stopping: ``EarlyStopping(patience=5)`` ends the run once validation has
            brought no gain for so many epochs.
        accumulate: Split each batch into this many parts to save memory, of two samples
            at least.
        clip_norm: Bound on the norm of the gradient; by default 1 for ``GaussianNLL``,
            none for other losses.
        prune: ``Prune(sparsity=0.9)`` removes the smallest weights of every member.
        ema: Decay, such as 0.999, of a moving average of each member's weights over the
            whole run, which takes their place as ``average`` of a method does.
        part_at: Until this epoch all members are one network, trained as the first one.
            Then each goes on with its own draws. With ``M`` members the run costs
            ``part_at + M * (epochs - part_at)`` epochs of one.
        device: Where to train; a GPU if there is one.
        precision: ``"float32"``, ``"tf32"``, ``"bfloat16"``; ``"auto"`` is bfloat16
            on a GPU and float32 elsewhere.
        deterministic: Choose only algorithms that repeat to the bit.
        runner: ``"graph"`` replays captured steps on a GPU, all members side by side;
            ``"eager"`` runs members in turn; ``"auto"`` takes graphs where it can.
        compile: Compile the members' forward passes; None does so on a GPU when the
            run is long enough to repay it.
        workers: Processes that load a data set of your own.
        offload: Keep only one member at a time on the device, the others in host
            memory; slower, to the same sets and weights.
        data_parallel: Ranks that share every batch of a member, under torchrun.
        callbacks: Told how the run goes (:class:`tepui.Callback`), or functions called
            with the record of every epoch, of which True ends the run; under torchrun
            those of rank 0.
        out: A run folder for configuration, metrics, checkpoints and the ensemble.
        resume: Continue the run in ``out``, to the same bits; start it if new.
        branch_from: The folder of a run that began like this one, with a method that
            trains as this one does at first (:meth:`tepui.methods.Method.prefix`), and
            pruned as this one, or not at all: go on from its last checkpoint, to the
            bits of a run that began here.
        checkpoint_every: Epochs between checkpoints.
        stop_after: Leave after this many epochs of the run, with a checkpoint from
            which it can be resumed or branched.
        progress: ``"bar"``, ``"lines"``, ``"none"``; ``"auto"`` fits the terminal.
        exchange: Which members this process trains, and how those in other processes
            are reached. Under torchrun members are dealt to its ranks by default;
            ``LocalExchange()`` trains all of them in every process.

    Returns:
        The run: trained ensemble, history and folder; under torchrun every rank gets
            all of it.

    Raises:
        ValueError: If an argument breaks its rule.
        FileExistsError: If ``out`` holds something and ``resume`` is false.
        TrainingDiverged: If a loss becomes infinite or NaN.
        RankLost: If another process of the run is gone.

    Example:
        >>> import tepui
        >>> from tepui.methods import SAM
        >>> data = tepui.data.Arrays(torch.randn(64, 4), torch.randint(3, (64,)))
        >>> ensemble = tepui.Ensemble.build(lambda: torch.nn.Linear(4, 3), members=2)
        >>> run = fit(ensemble, data, method=SAM(), epochs=2, progress="none")
        >>> len(run.history)
        2
    """
    given = {**locals()}
    execution, spec = _taken(ExecutionSpec, given), _taken(TrainingSpec, given)
    apart = ("dataset", "sample_weights")  # whose kinds are looked at later
    check_types(fit, {n: value for n, value in given.items() if n not in apart})
    if sample_weights is not None:
        given["sample_weights"] = to_tensor("sample_weights", sample_weights)
    text = method.remark(len(ensemble))
    complete = unlabeled is not None or not method.needs_unlabeled
    if text is not None and complete:
        writer = (exchange_here(data_parallel) if exchange is None else exchange).writer
        remark(progress if writer else "none", f"{type(method).__name__}: {text}")
    return train(**given, execution=execution, spec=spec)


def train(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    spec: TrainingSpec,
    execution: ExecutionSpec = PLAIN_EXECUTION,
    *,
    validation: Dataset[Any] | float | None = None,
    unlabeled: Dataset[Any] | None = None,
    sample_weights: Tensor | None = None,
    callbacks: Sequence[Told] = (),
    out: str | Path | None = None,
    resume: bool = False,
    branch_from: str | Path | None = None,
    exchange: Exchange | None = None,
) -> Run:
    """Train an ensemble in place, as :func:`tepui.fit` does, from values.

    Args:
        ensemble: What to train; its members move to the device.
        dataset: A map-style data set of ``(x, y)``.
        spec: What the weights depend on.
        execution: How and where.
        validation: A data set, or the share of ``dataset`` to hold out for it.
        unlabeled: Data for members to disagree on, for methods that need them.
        sample_weights: Factors on the losses of ``dataset``, one per sample.
        callbacks: Told how the run goes, and asked after every epoch whether to stop.
        out: A run folder.
        resume: Continue the run in ``out``, to the same bits; start it if new.
        branch_from: The folder of a run that began like this one; go on from there.
        exchange: Which members this process trains, and how others are reached; by
            default torchrun's ranks, if there are any.

    Returns:
        The run: trained ensemble, history and folder, the same in every process. One
            that was told to stop after some epochs has its history and weights so far.

    Raises:
        ValueError: If an argument breaks its rule.
        FileExistsError: If ``out`` holds something and ``resume`` is false.
        TrainingDiverged: If a loss becomes infinite or NaN.
        RankLost: If another process of the run is gone.
    """
    exchange = exchange or exchange_here(execution.data_parallel)
    clock, told = Clock(), Callbacks(callbacks)
    beside = validation, unlabeled, sample_weights
    data, spec = asked_for(ensemble, dataset, spec, execution, *beside, out)
    ranks, here = execution.data_parallel, exchange.sharing
    rule = f"be the number of processes that share a batch, {here} here (see torchrun)"
    require(ranks == here, "data_parallel", rule, ranks)
    folder = None if out is None else RunFolder(out)
    begun = folder.threads() if folder is not None and resume else None
    if begun is None and branch_from is not None:
        begun = RunFolder(branch_from).threads()
    device, exactly = execution.device, execution.deterministic
    numerics = numerics_of(device, spec.precision, exactly, begun)
    config: dict[str, Any] = {}
    alone = isinstance(exchange, LocalExchange)
    if folder is not None or branch_from is not None or not alone or len(told):
        config = run_config(ensemble, dataset, data, spec, execution, numerics)
    if folder is not None:
        folder.check(config, resume=resume)
    origin = None
    if branch_from is not None and (folder is None or not folder.checkpoint.exists()):
        origin = branch_point(branch_from, config, spec)
    order = Order(
        *(ensemble, data, spec, execution, numerics, exchange, folder, resume),
        *(origin, config, told, clock),
    )
    for module in ensemble.members if spec.prune is not None else ():
        add_masks(module)
    _give_meaning(order, dataset)
    if spec.early_stopping is not None:
        spec.early_stopping.check_task(ensemble.task)
    run = Run(out, ensemble, _outcome(order, branch_from))
    if exchange.writer:
        with told.told_of_errors():
            told.end(run)
    return run


Run.trained_by = staticmethod(train)


def _outcome(order: Order, branch_from: str | Path | None) -> Outcome:
    """Carry out what was asked for, or return what came of it before."""
    ensemble, exchange, folder = order.ensemble, order.exchange, order.folder
    if folder is not None and folder.finished:
        order.place(range(len(ensemble)))
        load_into(ensemble, folder.path)
        return folder.outcome()
    with exchange.attending():
        if not isinstance(exchange, LocalExchange):
            out = None if folder is None else folder.path
            places = {"out": str(out), "branch_from": str(branch_from)}
            asked = {**order.config, **places, **order.agreed_on}
            check_agreement(exchange, asked, ensemble, order.data.train)
        with ExitStack() as claim, order.callbacks.told_of_errors():
            training = _trained(order, claim)
            with order.clock.during("finishing"):
                _reunite(order)
                return concluded(training)


def _taken(kind: type[R], given: dict[str, Any]) -> R:
    """Return a specification of the arguments that are its fields, taken from all."""
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: given.pop(name) for name in names})


def _trained(order: Order, claim: ExitStack) -> Training:
    """Train until the run's end; its folder is claimed for as long as ``claim`` is."""
    ensemble, spec, execution = order.ensemble, order.spec, order.execution
    exchange, folder, numerics = order.exchange, order.folder, order.numerics
    _share_frozen(order)
    order.place(order.owned)
    members, source, unlabeled, validation = _prepared(order)
    interruption = Interruption()
    with ExitStack() as stack:
        stack.enter_context(numerics.applied())
        stack.enter_context(torch.random.fork_rng())
        stretches = spec.course(len(ensemble)).stretches
        epochs = sum(stretches[m.index].end - stretches[m.index].first for m in members)
        steps = epochs * steps_per_epoch(source.samples, spec.batch_size)
        style = execution.progress if exchange.writer else "none"
        title = type(spec.method).__name__
        shown = showing(style, title, epochs=spec.epochs, steps=steps)
        progress = stack.enter_context(shown)
        if isinstance(spec.method, CoupledMethod):
            together = exchange.party(len(ensemble), numerics.device)
        else:
            together = exchange.data_group(numerics.device)
        plan = Plan(
            source=source,
            unlabeled=unlabeled,
            spec=spec,
            seeds=ensemble.seeds,
            exchange=exchange,
            advance=progress.advance,
            stopping=Stopping(interruption, together),
            clock=order.clock,
            body=order.body,
        )
        training = Training(
            order=order,
            members=members,
            runner=runner_of(execution.runner, plan, members),
            validation=validation,
            progress=progress,
            interruption=interruption,
        )
        stack.callback(training.runner.release)
        if folder is not None and exchange.writer:
            claim.enter_context(folder.claimed(order.config, resume=order.resume))
            folder.begin(order.config, order.origin)
        exchange.wait()  # nothing lies in a folder before what says what it is
        with order.clock.during("restoring"):
            training.restore()
        progress.advance(training.steps_done())
        if exchange.writer:
            out = None if folder is None else str(folder.path)
            order.callbacks.start(masked({**order.config, "out": out}))
        exchange.wait()  # steps have a timeout, which callbacks may well exceed
        if folder is not None:
            stack.enter_context(interruption.listening())
        training.run()
        if training.ended:
            with order.clock.during("finishing"):
                for member in members:
                    training.finish(member)
    return training


def _share_frozen(order: Order) -> None:
    """Let members share what is frozen, and nothing else."""
    ensemble = order.ensemble
    for index, module in enumerate(apart([*ensemble.members])):
        if module is not ensemble.members[index] and order.exchange.writer:
            warn(f"member {index} trains tensors of an earlier one: it gets its own")
        ensemble.members[index] = module
    share_frozen([*ensemble.members])


def _reunite(order: Order) -> None:
    """Bring home the weights of members that other processes train."""
    for index, module in enumerate(order.ensemble.members):
        frozen = frozen_names(module)
        trained = [t for n, t in tensor_state(module).items() if n not in frozen]
        order.exchange.share(trained, index)
    order.place(range(len(order.ensemble)))


def _prepared(
    order: Order,
) -> tuple[list[TrainingMember], BatchSource, BatchSource | None, Validating | None]:
    """Check that data, members, and method fit; return all of them ready.

    Returns:
        The members that this process trains, their training data, the unlabeled data
        that come beside them, and what goes over the validation data.
    """
    ensemble, data, spec = order.ensemble, order.data, order.spec
    classes = check_run(ensemble, data, spec, order.exchange)
    workers, device = order.execution.workers, order.numerics.device
    steps, views = spec.policies[0], spec.views
    source = source_of(data.train, steps, device, workers, classes, views=views)
    absent = absent_remark(targets_of(data.train), classes, class_names(data.train))
    if absent is not None and order.exchange.writer:
        remark(order.execution.progress, absent)
    unlabeled, validation = None, None
    if data.unlabeled is not None:
        alone = [step for step in steps if not isinstance(step, Mixing)]
        unlabeled = source_of(data.unlabeled, alone, device, workers, None)
    if data.held_out is not None:
        validation = partial(
            in_order,
            data.held_out,
            spec.batch_size,
            device=device,
            workers=workers,
            num_classes=classes,
        )
    members = members_of(order, source.samples)
    return members, source, unlabeled, validation


def _give_meaning(order: Order, dataset: Dataset[Any]) -> None:
    """Let an ensemble know what its outputs mean and how raw inputs are prepared.

    A loss that names no task leaves the one that the user named. What held-out data
    said of other weights is forgotten.
    """
    ensemble = order.ensemble
    ensemble.task = task_of(order.spec.loss, ensemble.task)
    known = preparation_of(dataset)
    steps = [step for policy in order.spec.policies for step in policy]
    seen = sorted(frozenset().union(*(step.corruptions for step in steps)))
    ensemble.preparation = known and replace(known, seen=tuple(seen))
    ensemble.trained_on = fingerprint(order.data.train)
    ensemble.calibration = ensemble.conformity = ensemble.detectors = None


def branch_point(
    folder: str | Path, config: dict[str, Any], spec: TrainingSpec
) -> Checkpoint:
    """Return the checkpoint of a run from which another one may go on.

    Both runs must have been told the same but for their methods, which must do the same
    up to the checkpoint, and for pruning, which must come after it.
    """
    origin = RunFolder(folder)
    saved = origin.load_checkpoint()
    if saved is None:
        raise ValueError(f"branch_from must hold a run with a checkpoint, got {folder}")
    begun, asked = origin.recorded()["config"], json.loads(json.dumps(config))
    until, same = spec.epochs, dict(begun)
    if asked["method"] != begun["method"]:
        method, until = spec.method.prefix(spec.epochs)
        first, there = document(method), f"the run in {folder} ({begun['method']})"
        rule = f"begin like {there}, but it begins like {first}"
        require(first == begun["method"], "method", rule, spec.method)
        same["method"] = asked["method"]
    if begun["prune"] is None and spec.prune is not None:
        until = min(until, spec.prune.epoch(spec.epochs))
        same["prune"] = asked["prune"]
    check_settings(same, asked, origin.path)
    done = len(saved.history)
    rule = f"stand at epoch {until} or before, where this run begins to differ"
    require(done <= until, "branch_from", rule, f"{folder}, after {done} epochs")
    steps = done * steps_per_epoch(asked["data"]["samples"], spec.batch_size)
    # Members that have yet to begin, or have ended, have done fewer.
    own = max(saved.member(index)[1]["step"] for index in range(len(saved.digests)))
    rule = "stand at the end of an epoch (resume it until then)"
    require(own == steps, "branch_from", rule, folder)
    return saved


def concluded(training: Training) -> Outcome:
    """Save what came of the run, and return it; one that has not ended goes on."""
    folder, exchange, spec = training.folder, training.exchange, training.spec
    ensemble = training.order.ensemble
    history, clock = History(training.history), training.clock
    if not training.ended:
        return Outcome(history, timeline=clock.timeline)
    if folder is not None and exchange.writer:
        folder.check_there()
        # Before anything of the method's can fail: hours of training are in it.
        ensemble.save(folder.path, overwrite=True)
    states = exchange.collect({m.index: m.state for m in training.members})
    summary = finite_or_none(spec.method.summary(states))
    best = exchange.collect({m.index: m.best.epoch for m in training.members})
    best_epochs = tuple(best) if spec.keep == "best" else ()
    timeline = clock.timeline
    outcome = Outcome(history, best_epochs, summary, timeline, training.stopped_by)
    if folder is not None and exchange.writer:
        folder.write_outcome(outcome)
    exchange.wait()  # a run is over for all or for none
    if training.interruption.requested:
        training.interruption.leave()
    return outcome
