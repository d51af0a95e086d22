"""What a run refuses before its first step.

Training goes through both functions. Whoever trains several methods can ask them of
all of these first.
"""

from dataclasses import replace
from typing import Any

from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.members import for_member
from tepui.data.loading import length
from tepui.ensembles.ensemble import Ensemble
from tepui.modules.pruning import check_prunable
from tepui.modules.state import structure_digest
from tepui.training.balancing import balanced
from tepui.training.batches import steps_per_epoch
from tepui.training.exchange import Exchange
from tepui.training.inputs import (
    RunData,
    check_batch,
    check_data,
    check_execution,
    check_length,
    check_members,
    divide,
)
from tepui.training.spec import ExecutionSpec, TrainingSpec


def asked_for(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    spec: TrainingSpec,
    execution: ExecutionSpec,
    *,
    validation: Dataset[Any] | float | None = None,
    unlabeled: Dataset[Any] | None = None,
    sample_weights: Tensor | None = None,
    out: object = None,
) -> tuple[RunData, TrainingSpec]:
    """Return the parts of the data, and the loss in numbers, of what goes together."""
    check_execution(spec, execution, validation, out)
    check_members(ensemble)
    count = len(ensemble)
    data = divide(dataset, validation, unlabeled, spec.method, count, sample_weights)
    loss = balanced(spec.loss, data.train, ensemble.members[0])
    return data, spec if loss is spec.loss else replace(spec, loss=loss)


def check_run(
    ensemble: Ensemble, data: RunData, spec: TrainingSpec, exchange: Exchange
) -> int | None:
    """Check that members, data and method fit; return the classes of labels."""
    classes = check_data(ensemble, data, spec, exchange)
    samples = length(data.train)
    check_batch(spec, samples)
    check_length(spec, len(ensemble), steps_per_epoch(samples, spec.batch_size))
    for_member(spec.method, 0, len(ensemble))
    _check_course(ensemble, spec, exchange)
    if spec.prune is not None:
        for_member(spec.prune, 0, len(ensemble))
        for member in ensemble.members:
            check_prunable(member)
    return classes


def _check_course(ensemble: Ensemble, spec: TrainingSpec, exchange: Exchange) -> None:
    """Refuse members that cannot go on from each other."""
    count = len(ensemble)
    if spec.method.successive:
        here = len(exchange.owned(count))
        rule = f"train all {count} members, one after the other"
        require(here == count, "a process of this run", rule, here)
    if spec.course(count).all_begin_anew:
        return
    first, *others = ensemble.members
    for index, other in enumerate(others, 1):
        rule = "have the layers and the frozen weights of member 0, to go on from it"
        alike = structure_digest(first) == structure_digest(other)
        alike = alike and all(
            one.requires_grad or one.equal(two)
            for one, two in zip(first.parameters(), other.parameters(), strict=True)
        )
        require(alike, f"member {index}", rule, type(other).__name__)
