"""What a run says of its members when it has ended."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tepui.core.members import lists_of
from tepui.data.loading import targets_of
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.answers import (
    Answers,
    answers_on,
    silent_members,
    warn_of_silent,
)
from tepui.evaluation.dead_members import (
    all_dead,
    only_guess,
    only_guess_in_words,
    warn_of_all_dead,
    warn_of_dead_members,
)
from tepui.losses import CrossEntropy
from tepui.methods.coupled import CoupledMethod
from tepui.tasks import task_of
from tepui.tasks.base import Losses
from tepui.training.inputs import RunData, few_of, output_width
from tepui.training.run import Run
from tepui.training.spec import TrainingSpec

# The part of a run's summary about what members' answers say.
ANSWERS = "answers"
# From so many epochs on, the mean loss of the last tells what was learned.
FEWEST_EPOCHS = 2


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
    said = {
        name: answers_on(ensemble, part, spec.batch_size).document()
        for name, part in parts.items()
    }
    return {ANSWERS: said}


class LastLosses(NamedTuple):
    """Members' losses in the last epoch beside a guess's; None if not comparable."""

    trained: Losses | None
    validation: Losses | None


def last_losses(run: Run, data: RunData, spec: TrainingSpec) -> LastLosses:
    """Return what members lost at the end of a run, beside what a guess loses."""
    last = run.history[-1]
    several = [
        list(losses) if _comparable(losses, run, data, spec) else None
        for losses in (last.trained, last.validation_loss)
    ]
    if not any(several):
        return LastLosses(None, None)
    first = run.ensemble.members[0]
    outputs = output_width(first, few_of(data.train, [first]), spec.loss)
    targets = targets_of(data.train)

    def beside(losses: list[float] | None) -> Losses | None:
        if losses is None:
            return None
        given = losses, targets, outputs, spec.loss
        return task_of(spec.loss).beside_guessing(*given)

    return LastLosses(*map(beside, several))


def warn_of_members(run: Run, spec: TrainingSpec, last: LastLosses) -> None:
    """Warn of members that did not learn, lie far behind the others, or say nothing."""
    if (said := run.summary.get(ANSWERS)) is not None:
        silent = silent_members(*(_answers(said[k]) for k in ("labeled", "unlabeled")))
        warn_of_silent(silent, type(spec.method).__name__)
    seen = "the training data" if last.validation is None else "the validation data"
    known = last.validation or last.trained
    if known is not None:
        tell = warn_of_all_dead if all_dead(known) else warn_of_dead_members
        tell(known, seen)


def guessing_remark(run: Run, spec: TrainingSpec, last: LastLosses) -> str | None:
    """Return a sentence if no member of a run that has ended does more than guess.

    It is said of losses in training, which tell of learning even where what was learned
    does not carry over; not of those in the first epoch, whose mean is mostly of
    weights that have hardly moved. Of losses far above guessing there is a warning.
    """
    ended = len(run.history) == spec.epochs or run.stopped_by is not None
    if len(run.history) < FEWEST_EPOCHS or not ended or last.trained is None:
        return None
    if all_dead(last.trained) or not only_guess(last.trained):
        return None
    return only_guess_in_words(last.trained)


def _answers(said: Mapping[str, Any]) -> Answers:
    lists = {name: tuple(said[name]) for name in ("information", "entropy")}
    return Answers(said["samples"], said["classes"], **lists)


def _comparable(
    losses: Sequence[float], run: Run, data: RunData, spec: TrainingSpec
) -> bool:
    """Return whether losses are there for all members, and none is weighed."""
    loss, last = spec.loss, run.history[-1]
    weighed = data.weights is not None and losses == last.trained
    if isinstance(loss, CrossEntropy):
        weighed |= loss.class_weights is not None or bool(lists_of(loss))
    return len(losses) == len(run.ensemble) and not weighed
