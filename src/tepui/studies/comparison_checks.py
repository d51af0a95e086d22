"""What a comparison cannot train or test, found before it trains anything."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

from tepui.core.text import listed
from tepui.data.labels import checked_targets, class_names, relabel
from tepui.data.shifts import Shifts
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.examiner import check_metrics
from tepui.losses import Loss
from tepui.modules.running import evaluating, forward, refusal_named
from tepui.studies.given import GivenTest
from tepui.studies.job import Job
from tepui.studies.specifications import Trial
from tepui.studies.store import Store, check_trial
from tepui.tasks import task_of
from tepui.tasks.scores import taken_names
from tepui.training.checks import (
    check_labels,
    check_targets,
    classifies,
    few_of,
    output_sizes,
)


def check_comparison(
    plan: Mapping[tuple[str, int], Job],
    train: Dataset[Any],
    given: GivenTest,
    seen: GivenTest,
    store: Store,
) -> str:
    """Refuse what cannot be trained or tested.

    Args:
        plan: The jobs by method and repetition.
        train: What members learn from.
        given: The test as a caller gave it.
        seen: The same as members see it, which may be features of its samples.
        store: Where everything will be.

    Returns:
        What members are.

    Raises:
        ValueError: What training or testing would say at its turn.
    """
    trials = {label: job.trial for (label, number), job in plan.items() if number == 0}
    first = next(iter(trials.values()))
    ensemble = Ensemble.build(first.model, len(first.seeds), first.seeds)
    _check_test([*ensemble.members], first.training.loss, train, given)
    _check_inputs(ensemble.members[0], seen)

    def check(trial: Trial) -> None:
        check_trial(trial, store.dataset, store.execution, store.shared, ensemble)

    check_methods(trials, check)
    return type(ensemble.members[0]).__qualname__


def _check_test(
    members: Sequence[nn.Module], loss: Loss, train: Dataset[Any], test: GivenTest
) -> None:
    """Refuse labels and metrics that do not fit members' outputs."""
    few = few_of(train, members)
    sizes = output_sizes(members, few, loss)
    check_targets("the training data", train, loss)
    with evaluating(members[0]), torch.no_grad():
        outputs = forward(members[0], few.inputs)
    # Labels to be scored are classes, also where members learn from probabilities.
    classes = min(sizes) if classifies(loss) else None
    names = class_names(test.test)
    for argument, data in _by_argument(test).items():
        scored = relabel(data, names)
        check_targets(argument, scored, loss, scored=True)
        check_labels(argument, scored, classes, train)
        targets = checked_targets(scored)[: len(outputs)].to(outputs.device)
        try:
            task_of(loss).check_learned(outputs[: len(targets)], targets, loss)
        except ValueError as error:
            raise ValueError(f"{argument}: {error}") from error
    shape = len(members), 1, *outputs.shape[1:]
    check_metrics(test.metrics, taken_names(task_of(loss).scores_of(shape)))


def _check_inputs(member: nn.Module, test: GivenTest) -> None:
    """Refuse samples that a member cannot take."""
    for argument, data in _by_argument(test).items():
        inputs = few_of(data, [member]).inputs
        try:
            with evaluating(member), torch.no_grad(), refusal_named(inputs):
                forward(member, inputs)
        except ValueError as error:
            raise ValueError(f"{argument}: {error}") from error


def _by_argument(test: GivenTest) -> dict[str, Dataset[Any]]:
    """Return the labeled data of a test by the words of their arguments."""
    return {"test": test.test, **Shifts.of(test.shifted).given}


def check_methods(trials: Mapping[str, Trial], check: Callable[[Trial], None]) -> None:
    """Refuse what training would refuse at a method's turn, with all such methods.

    Args:
        trials: One ensemble of each method, by its label.
        check: Refuses a trial that cannot be trained, see :func:`check_trial`.

    Raises:
        ValueError: What training would say, if it says the same of all methods, and
            else what it would say of each that it refuses.
    """
    refused: dict[str, ValueError] = {}
    for label, trial in trials.items():
        try:
            check(trial)
        except ValueError as error:
            refused[label] = error
    if not refused:
        return
    if len(refused) == len(trials) and len({*map(str, refused.values())}) == 1:
        raise next(iter(refused.values()))
    said = listed([f"{label}: {error}" for label, error in refused.items()])
    rule = f"be such as can be trained on these data, got {len(refused)} that cannot"
    raise ValueError(f"methods must {rule}:{said}")
