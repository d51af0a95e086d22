"""Carrying out a run: check, prepare, run, conclude, and warn of its members."""

import json
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.members import lists_of
from tepui.core.provenance import masked
from tepui.core.spec import document
from tepui.core.storage import finite_or_none
from tepui.core.warning import warn
from tepui.data.arrays import Batch
from tepui.data.identity import fingerprint
from tepui.data.labels import class_names
from tepui.data.loading import in_order, targets_of
from tepui.data.mixing import Mixing
from tepui.data.preparation import preparation_of
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.loading import load_into
from tepui.evaluation.dead_members import (
    all_dead,
    information_on,
    only_guess,
    only_guess_in_words,
    silent_members,
    warn_of_dead_members,
    warn_of_silent,
)
from tepui.losses import CrossEntropy
from tepui.methods.coupled import CoupledMethod
from tepui.modules.pruning import add_masks
from tepui.modules.state import tensor_state, weights_norm
from tepui.tasks import task_of
from tepui.tasks.base import Losses
from tepui.training.batches import BatchSource, source_of, steps_per_epoch
from tepui.training.callbacks import Callbacks
from tepui.training.checkpoint import Checkpoint
from tepui.training.checks import absent_remark, asked_for, check_run, output_width
from tepui.training.epochs import Training
from tepui.training.exchange import Exchange, LocalExchange
from tepui.training.history import History, Outcome
from tepui.training.interrupt import Interruption, Stopping
from tepui.training.member import TrainingMember
from tepui.training.numerics import Numerics, numerics_of
from tepui.training.prepare import Order, members_of, runner_of
from tepui.training.progress import remark, showing
from tepui.training.run_folder import RunFolder, check_agreement, run_config
from tepui.training.runner import Plan
from tepui.training.spec import ExecutionSpec, TrainingSpec
from tepui.training.timeline import Clock, in_words

log = logging.getLogger(__name__)

# Weights drawn with one seed on two kinds of machines differ by less.
SAME_WEIGHTS = 1e-4
# The part of a run's summary about what members' answers say.
ANSWERS = "answers"
# From so many epochs on, the mean loss of the last tells what was learned.
FEWEST_EPOCHS = 2
Validating = Callable[[], Iterator[Batch]]


def trained(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    spec: TrainingSpec,
    execution: ExecutionSpec,
    *,
    exchange: Exchange,
    callbacks: Callbacks,
    out: str | Path | None,
    resume: bool,
    branch_from: str | Path | None,
    **beside: Any,
) -> Outcome:
    """Train an ensemble in place, as :func:`tepui.training.train` does.

    ``beside`` are validation data, unlabeled data and weights of samples.
    """
    clock = Clock()
    ranks = execution.data_parallel
    data, spec = asked_for(ensemble, dataset, spec, execution, out=out, **beside)
    here = f"which is {exchange.sharing} here"
    rule = f"be the number of processes that share a batch, {here} (see torchrun)"
    require(ranks == exchange.sharing, "data_parallel", rule, ranks)
    folder = None if out is None else RunFolder(out)
    threads = _threads_of(folder if resume else None, branch_from)
    device, exactly = execution.device, execution.deterministic
    how = device, spec.precision, exactly, threads, execution.cpu_kernels
    numerics = numerics_of(*how)
    config: dict[str, Any] = {}
    alone = isinstance(exchange, LocalExchange)
    if folder is not None or branch_from is not None or not alone or len(callbacks):
        config = run_config(ensemble, dataset, data, spec, execution, numerics)
    if folder is not None:
        folder.check(config, resume=resume)
    origin = None
    if branch_from is not None and (folder is None or not folder.checkpoint.exists()):
        origin = branch_point(branch_from, config, spec, ensemble)
    first_weights = [weights_norm(member) for member in ensemble.members]
    order = Order(
        *(ensemble, data, spec, execution, numerics, exchange, folder, resume),
        *(origin, first_weights, config, callbacks, clock),
    )
    for module in ensemble.members if spec.prune is not None else ():
        add_masks(module)
    _give_meaning(order, dataset)
    if spec.early_stopping is not None:
        spec.early_stopping.check_task(ensemble.task)
    if folder is not None and folder.finished:
        log.info("the run in %s is already finished", folder.path)
        order.place(range(len(ensemble)))
        load_into(ensemble, folder.path)
        return folder.outcome()
    with exchange.attending():
        if not alone:
            asked = {
                "out": str(out),
                "branch_from": str(branch_from),
                **order.agreed_on,
            }
            check_agreement(exchange, config | asked, ensemble, data.train)
        outcome = _carried_out(order)
    if exchange.writer and outcome.history:
        say_of_members(outcome, order)
    return outcome


def _threads_of(folder: RunFolder | None, branch_from: str | Path | None) -> int | None:
    """Return the threads of the run that is continued, None if there is none."""
    begun = None if folder is None else folder.threads()
    if begun is None and branch_from is not None:
        return RunFolder(branch_from).threads()
    return begun


def _carried_out(order: Order) -> Outcome:
    """Train from where the run stands to its end, and conclude it."""
    with ExitStack() as claim, order.callbacks.told_of_errors():
        training = _trained(order, claim)
        with order.clock.during("finishing"):
            _reunite(order)
            return concluded(training)


def _trained(order: Order, claim: ExitStack) -> Training:
    """Train until the run's end; its folder is claimed for as long as ``claim`` is."""
    ensemble, spec, execution = order.ensemble, order.spec, order.execution
    exchange, folder, numerics = order.exchange, order.folder, order.numerics
    order.place(order.owned)
    members, source, unlabeled, validation = _prepared(order)
    interruption = Interruption()
    with ExitStack() as stack:
        stack.enter_context(numerics.applied())
        stack.enter_context(torch.random.fork_rng())
        steps = steps_per_epoch(source.samples, spec.batch_size)
        steps *= spec.epochs * len(members)
        style = execution.progress if exchange.writer else "none"
        title = type(spec.method).__name__
        costs = spec.costs(len(ensemble))
        shown = stack.enter_context(showing(style, title, costs=costs, steps=steps))
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
            advance=lambda steps: shown.advance(steps * training.standing_for),
            stopping=Stopping(interruption, together),
            clock=order.clock,
        )
        training = Training(
            order=order,
            members=members,
            runner=runner_of(execution.runner, plan, members),
            validation=validation,
            progress=shown,
            interruption=interruption,
        )
        stack.callback(training.runner.release)
        _say_how(training, numerics)
        if folder is not None and exchange.writer:
            claim.enter_context(folder.claimed(order.config, resume=order.resume))
            folder.begin(order.config, order.first_weights, order.origin)
        exchange.wait()  # nothing lies in a folder before what says what it is
        with order.clock.during("restoring"):
            training.restore()
        shown.advance(training.steps_done())
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


def _reunite(order: Order) -> None:
    """Bring home the weights of members that other processes train."""
    for index, module in enumerate(order.ensemble.members):
        order.exchange.share([*tensor_state(module).values()], index)
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


def _say_how(training: Training, numerics: Numerics) -> None:
    spec, runner = training.spec, training.runner
    what = type(spec.method).__name__, len(training.members), spec.epochs
    how = runner.plan.steps, numerics.device, numerics.precision, type(runner).__name__
    text = "%s: %d members, %d epochs of %d steps on %s in %s, by %s"
    log.info(text, *what, *how)


def branch_point(
    folder: str | Path,
    config: dict[str, Any],
    spec: TrainingSpec,
    ensemble: Ensemble,
) -> Checkpoint:
    """Return the checkpoint of a run from which another one may go on.

    Both runs must have begun with the same weights and been told the same but for
    their methods, which must do the same up to the checkpoint, and for pruning, which
    must come after it.
    """
    origin = RunFolder(folder)
    checkpoint = origin.load_checkpoint()
    if checkpoint is None:
        raise ValueError(f"branch_from must hold a run with a checkpoint, got {folder}")
    begun = origin.recorded()
    recorded = begun["config"]
    asked = json.loads(json.dumps(config))
    later = {"method", "prune"} if recorded.get("prune") is None else {"method"}
    for name in sorted((asked.keys() | recorded.keys()) - later):
        value, there = asked.get(name), recorded.get(name)
        rule = f"match the run being branched from ({there!r} in {folder})"
        require(value == there, name, rule, value)
    _check_first_weights(begun["first_weights"], ensemble, folder)
    _check_whole_epochs(checkpoint, asked["data"]["samples"], spec, folder)
    done = len(checkpoint.history)
    if asked["method"] != recorded["method"]:
        _check_prefix(recorded["method"], done, spec, folder)
    if asked["prune"] != recorded.get("prune"):
        assert spec.prune is not None
        whole = spec.prune.epoch(spec.epochs)
        rule = f"stand at epoch {whole} or before, where members are pruned"
        found = f"{folder}, after {done} epochs"
        require(done <= whole, "branch_from", rule, found)
    return checkpoint


def _check_first_weights(
    recorded: list[float], ensemble: Ensemble, folder: str | Path
) -> None:
    """Refuse an ensemble that another run than this one would have trained."""
    rule = f"begin with the weights that the run in {folder} began with"
    pairs = zip(recorded, ensemble.members, strict=True)
    for index, (length, member) in enumerate(pairs):
        here = weights_norm(member)
        same = math.isclose(here, length, rel_tol=SAME_WEIGHTS)
        value = f"weights of length {here:.6g} instead of {length:.6g}"
        require(same, f"member {index} of ensemble", rule, value)


def _check_whole_epochs(
    checkpoint: Checkpoint, samples: int, spec: TrainingSpec, folder: str | Path
) -> None:
    """Refuse a run that was stopped within an epoch, whose rest is its own method's."""
    steps = len(checkpoint.history) * steps_per_epoch(samples, spec.batch_size)
    members = range(len(checkpoint.digests))
    # Members that have yet to begin, or have ended, have done fewer.
    done = max(checkpoint.member(index)[1]["step"] for index in members)
    rule = "stand at the end of an epoch (resume it until then)"
    require(done == steps, "branch_from", rule, folder)


def _check_prefix(
    trained: dict[str, Any], epochs: int, spec: TrainingSpec, folder: str | Path
) -> None:
    method, alike = spec.method.prefix(spec.epochs)
    begins = document(method)
    rule = f"begin like the run in {folder} ({trained}), but it begins like {begins}"
    require(begins == trained, "method", rule, spec.method)
    rule = (
        f"stand at epoch {alike} or before, where {type(spec.method).__name__} begins "
        f"to differ from {type(method).__name__}"
    )
    require(epochs <= alike, "branch_from", rule, f"{folder}, after {epochs} epochs")


def concluded(training: Training) -> Outcome:
    """Save what came of the run, and return it; one that has not ended goes on."""
    folder, exchange, spec = training.folder, training.exchange, training.spec
    order, ensemble = training.order, training.order.ensemble
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
    summary |= _answers_on_unlabeled(order)
    timeline = clock.timeline
    log.info("the run took %s", in_words(timeline))
    outcome = Outcome(history, best_epochs, summary, timeline, training.stopped_by)
    if folder is not None and exchange.writer:
        folder.write_outcome(outcome)
        log.info("the run in %s has ended", folder.path)
    exchange.wait()  # a run is over for all or for none
    if training.interruption.requested:
        training.interruption.leave()
    return outcome


def _answers_on_unlabeled(order: Order) -> dict[str, Any]:
    """Return what members' answers still say about unlabeled data, for the summary.

    Beside it stands what they say about the labeled data.
    """
    ensemble, data, spec = order.ensemble, order.data, order.spec
    method = spec.method
    compared = isinstance(method, CoupledMethod) and method.compares_classes
    if data.unlabeled is None or not compared:
        return {}
    parts = {"labeled": data.train, "unlabeled": data.unlabeled}
    found = {n: information_on(ensemble, p, spec.batch_size) for n, p in parts.items()}
    return {ANSWERS: found}


def say_of_members(run: Outcome, order: Order) -> None:
    """Say which members did not learn, lie far behind the others, or say nothing.

    That none does more than guess is said of losses in training, which tell of learning
    even where what was learned does not carry over; not of those in the first epoch,
    whose mean is mostly of weights that have hardly moved.
    """
    spec = order.spec
    if (said := run.summary.get(ANSWERS)) is not None:
        silent = silent_members(said["labeled"], said["unlabeled"])
        warn_of_silent(silent, type(spec.method).__name__)
    last = run.history[-1]
    trained = None
    if order.data.weights is None:
        trained = _beside_guessing(last.trained, order)
    held_out = _beside_guessing(last.validation_loss, order)
    if (losses := held_out or trained) is not None:
        data_of = "the validation data" if held_out else "the training data"
        if all_dead(losses):
            warn(only_guess_in_words(losses, data_of))
        else:
            warn_of_dead_members(losses, data_of)
    ended = len(run.history) == spec.epochs or run.stopped_by is not None
    if trained is None or not ended or len(run.history) < FEWEST_EPOCHS:
        return
    if only_guess(trained) and not all_dead(trained):
        remark(
            order.execution.progress, only_guess_in_words(trained, "the training data")
        )


def _beside_guessing(losses: Sequence[float], order: Order) -> Losses | None:
    """Return all members' losses beside a guess's; None if they cannot be compared."""
    loss, members = order.spec.loss, order.ensemble.members
    weighed = isinstance(loss, CrossEntropy) and (
        loss.class_weights is not None or bool(lists_of(loss))
    )
    if weighed or len(losses) != len(members):
        return None
    outputs = output_width(members[0], order.data.train, loss)
    targets = targets_of(order.data.train)
    return task_of(loss).beside_guessing([*losses], targets, outputs, loss)
