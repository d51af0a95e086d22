"""What a run says of its members when it has ended."""

from collections.abc import Mapping
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
    all_dead,
    warn_of_all_dead,
    warn_of_dead_members,
)
from tepui.evaluation.guessing import losses_beside_guessing
from tepui.losses import CrossEntropy
from tepui.methods.coupled import CoupledMethod
from tepui.training.inputs import RunData, few_of, output_sizes
from tepui.training.run import EpochRecord, Run
from tepui.training.spec import TrainingSpec

# The part of a run's summary about what members' answers say.
ANSWERS = "answers"


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
    name = type(spec.method).__name__
    if (said := run.summary.get(ANSWERS)) is not None:
        silent = silent_members(*(_answers(said[k]) for k in ("labeled", "unlabeled")))
        warn_of_silent(silent, name)
    last = run.history[-1]
    losses = _losses(last, len(run.ensemble), spec, data)
    if not losses:
        return
    first = [run.ensemble.members[0]]
    outputs = output_sizes(first, few_of(data.train, first), spec.loss)[0]
    targets = targets_of(data.train)
    known = losses_beside_guessing(losses, targets, outputs, spec.loss)
    seen = "the validation data" if last.validation_loss else "the training data"
    if known is not None:
        tell = warn_of_all_dead if all_dead(known) else warn_of_dead_members
        tell(known, seen)


def _answers(said: Mapping[str, Any]) -> Answers:
    lists = {name: tuple(said[name]) for name in ("information", "entropy")}
    return Answers(said["samples"], said["classes"], **lists)


def _losses(
    last: EpochRecord, members: int, spec: TrainingSpec, data: RunData
) -> list[float]:
    """Return the members' last losses; none where these cannot be compared."""
    losses = list(last.validation_loss or last.trained)
    weighed = data.weights is not None and not last.validation_loss
    loss = spec.loss
    if isinstance(loss, CrossEntropy):
        weighed |= loss.class_weights is not None or bool(lists_of(loss))
    return losses if len(losses) == members and not weighed else []
