"""The end of a run: its outcome in the folder, warnings of members, and the value."""

import logging
from collections.abc import Sequence
from typing import Any

from tepui.core.members import lists_of
from tepui.core.storage import finite_or_none
from tepui.core.warning import warn
from tepui.data.loading import targets_of
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.answers import (
    information_on,
    silent_members,
    warn_of_silent,
)
from tepui.evaluation.dead_members import (
    all_dead,
    only_guess,
    only_guess_in_words,
    warn_of_dead_members,
)
from tepui.losses import CrossEntropy
from tepui.methods.coupled import CoupledMethod
from tepui.tasks import task_of
from tepui.tasks.base import Losses
from tepui.training.checks import RunData, output_width
from tepui.training.epochs import Training
from tepui.training.history import History, Outcome
from tepui.training.progress import Style, remark
from tepui.training.spec import TrainingSpec
from tepui.training.timeline import in_words

log = logging.getLogger(__name__)

# The part of a run's summary about what members' answers say.
ANSWERS = "answers"
# From so many epochs on, the mean loss of the last tells what was learned.
FEWEST_EPOCHS = 2


def concluded(ensemble: Ensemble, data: RunData, training: Training) -> Outcome:
    """Save what came of the run, and return it; one that has not ended goes on."""
    folder, exchange, spec = training.folder, training.exchange, training.spec
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
    summary |= answers_on_unlabeled(ensemble, data, spec)
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


def answers_on_unlabeled(
    ensemble: Ensemble, data: RunData, spec: TrainingSpec
) -> dict[str, Any]:
    """Return what members' answers still say about unlabeled data, for the summary.

    Beside it stands what they say about the labeled data.
    """
    method = spec.method
    compared = isinstance(method, CoupledMethod) and method.compares_classes
    if data.unlabeled is None or not compared:
        return {}
    parts = {"labeled": data.train, "unlabeled": data.unlabeled}
    found = {n: information_on(ensemble, p, spec.batch_size) for n, p in parts.items()}
    return {ANSWERS: found}


def say_of_members(
    run: Outcome, ensemble: Ensemble, data: RunData, spec: TrainingSpec, style: Style
) -> None:
    """Say which members did not learn, lie far behind the others, or say nothing.

    That none does more than guess is said of losses in training, which tell of learning
    even where what was learned does not carry over; not of those in the first epoch,
    whose mean is mostly of weights that have hardly moved.
    """
    if (said := run.summary.get(ANSWERS)) is not None:
        silent = silent_members(said["labeled"], said["unlabeled"])
        warn_of_silent(silent, type(spec.method).__name__)
    last = run.history[-1]
    trained = None
    if data.weights is None:
        trained = _beside_guessing(last.trained, ensemble, data, spec)
    held_out = _beside_guessing(last.validation_loss, ensemble, data, spec)
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
        remark(style, only_guess_in_words(trained, "the training data"))


def _beside_guessing(
    losses: Sequence[float], ensemble: Ensemble, data: RunData, spec: TrainingSpec
) -> Losses | None:
    """Return all members' losses beside a guess's; None if they cannot be compared."""
    loss, members = spec.loss, ensemble.members
    weighed = isinstance(loss, CrossEntropy) and (
        loss.class_weights is not None or bool(lists_of(loss))
    )
    if weighed or len(losses) != len(members):
        return None
    outputs = output_width(members[0], data.train, loss)
    targets = targets_of(data.train)
    return task_of(loss).beside_guessing([*losses], targets, outputs, loss)
