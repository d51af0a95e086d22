"""What a run says of its members when it has ended."""

from collections.abc import Mapping, Sequence
from typing import Any

from tepui.core.per_member import lists_of
from tepui.data.loading import targets_of
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.answers import (
    Answers,
    answers_on,
    silent_members,
    warn_of_silent,
)
from tepui.evaluation.dead_members import (
    Losses,
    all_dead,
    only_guess,
    only_guess_in_words,
    warn_of_all_dead,
    warn_of_dead_members,
)
from tepui.evaluation.guessing import losses_beside_guessing
from tepui.losses import CrossEntropy
from tepui.methods.coupled import CoupledMethod
from tepui.training.inputs import RunData, few_of, output_sizes
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


def warn_of_members(run: Run, data: RunData, spec: TrainingSpec) -> None:
    """Warn of members that did not learn, lie far behind the others, or say nothing."""
    if (said := run.summary.get(ANSWERS)) is not None:
        silent = silent_members(*(_answers(said[k]) for k in ("labeled", "unlabeled")))
        warn_of_silent(silent, type(spec.method).__name__)
    last = run.history[-1]
    known = _beside_guessing(last.validation_loss or last.trained, run, data, spec)
    if known is not None:
        seen = "the validation data" if last.validation_loss else "the training data"
        tell = warn_of_all_dead if all_dead(known) else warn_of_dead_members
        tell(known, seen)


def guessing_remark(run: Run, data: RunData, spec: TrainingSpec) -> str | None:
    """Return a sentence if no member of a run that has ended does more than guess.

    It is said of losses in training, which tell of learning even where what was learned
    does not carry over; not of those in the first epoch, whose mean is mostly of
    weights that have hardly moved. Of losses far above guessing there is a warning.
    """
    ended = len(run.history) == spec.epochs or run.stopped_by is not None
    if len(run.history) < FEWEST_EPOCHS or not ended:
        return None
    trained = _beside_guessing(run.history[-1].trained, run, data, spec)
    if trained is None or all_dead(trained) or not only_guess(trained):
        return None
    return only_guess_in_words(trained)


def _answers(said: Mapping[str, Any]) -> Answers:
    lists = {name: tuple(said[name]) for name in ("information", "entropy")}
    return Answers(said["samples"], said["classes"], **lists)


def _beside_guessing(
    losses: Sequence[float], run: Run, data: RunData, spec: TrainingSpec
) -> Losses | None:
    """Return losses of all members beside that of a guess; None if not comparable."""
    if not _comparable(losses, run, data, spec):
        return None
    first = [run.ensemble.members[0]]
    outputs = output_sizes(first, few_of(data.train, first), spec.loss)[0]
    targets = targets_of(data.train)
    return losses_beside_guessing([*losses], targets, outputs, spec.loss)


def _comparable(
    losses: Sequence[float], run: Run, data: RunData, spec: TrainingSpec
) -> bool:
    """Return whether losses are there for all members, and none is weighed."""
    loss, last = spec.loss, run.history[-1]
    weighed = data.weights is not None and losses == last.trained
    if isinstance(loss, CrossEntropy):
        weighed |= loss.class_weights is not None or bool(lists_of(loss))
    return len(losses) == len(run.ensemble) and not weighed
