"""What a comparison would train and test, and in which folders, before it does.

One job per method and repetition; all methods share seeds. What cannot be trained or
tested is found before anything is.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.spec import written
from tepui.core.text import listed
from tepui.data import prepared_like
from tepui.data.labels import checked_targets, class_names, relabel
from tepui.data.shifts import Shifts
from tepui.data.sources import tested_on
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.evaluate import Metric, check_metrics
from tepui.evaluation.ood import check_ood
from tepui.evaluation.stored_logits import LogitType
from tepui.losses import Loss
from tepui.methods import Method
from tepui.models import MLP
from tepui.modules.running import evaluating, forward, refusal_named
from tepui.sharpness import worst_case
from tepui.studies.given import Given, GivenTest, Named
from tepui.studies.job import Job
from tepui.studies.specifications import DataSource, SharpnessSpec, Trial
from tepui.studies.store import Store, check_trial
from tepui.tasks import task_of
from tepui.tasks.scores import taken_names
from tepui.training import ExecutionSpec, TrainingSpec
from tepui.training.checks import (
    check_labels,
    check_targets,
    classifies,
    few_of,
    output_sizes,
)

LINEAR = "Linear"


def ensembles_for(seed: int | Sequence[int], members: int) -> int:
    """Return how many ensembles are trained where nobody says: two, or as seeds say.

    Example:
        >>> ensembles_for(13, members=3), ensembles_for([1, 2, 3], members=3)
        (2, 1)
    """
    return max(1, len(seed) // members) if isinstance(seed, Sequence) else 2


def labels(methods: Sequence[Method]) -> list[str]:
    """Return a name for each method, with hyperparameters where names repeat.

    Example:
        >>> from tepui.methods import SAM, DeepEnsemble
        >>> labels([DeepEnsemble(), SAM(rho=0.1)])
        ['DeepEnsemble', 'SAM']
        >>> labels([SAM(), SAM(rho=0.1)])
        ['SAM()', 'SAM(rho=0.1)']
    """
    names = [type(method).__name__ for method in methods]
    counts = Counter(names)
    shown = [
        written(method) if counts[name] > 1 else name
        for name, method in zip(names, methods, strict=True)
    ]
    for label, times in Counter(shown).items():
        require(times == 1, "methods", "differ from each other", f"{label} twice")
    return shown


def check_arguments(
    methods: Sequence[Method],
    members: int,
    ensembles: int,
    unlabeled: Dataset[Any] | None,
) -> None:
    """Raise unless there are methods, members and ensembles, and data fit methods."""
    several = isinstance(methods, Sequence) and len(methods) > 0
    rule = "be a list of methods, such as [DeepEnsemble(), SAM()]"
    are = several and all(isinstance(method, Method) for method in methods)
    require(are, "methods", rule, methods)
    require(members > 0, "members", "be positive", members)
    require(ensembles > 0, "ensembles", "be positive", ensembles)
    require(
        unlabeled is None or any(method.needs_unlabeled for method in methods),
        "unlabeled",
        "be None unless a method uses unlabeled data",
        type(unlabeled).__name__,
    )


def given_test(
    test: Dataset[Any],
    shifts: Shifts,
    ood: Named | None,
    metrics: Mapping[str, Metric] | None,
) -> GivenTest:
    """Return the test of all ensembles, other data in the form of the test data."""
    shifts.check()
    natural = {n: prepared_like(data, test) for n, data in shifts.natural.items()}
    shifts = replace(shifts, natural=natural)
    sets = {} if ood is None else ood
    require(isinstance(sets, Mapping), "ood", "map names to data sets", sets)
    sets = {name: prepared_like(data, test) for name, data in sets.items()}
    check_ood(sets, test)
    custom = {} if metrics is None else metrics
    check_metrics(custom, ())
    return GivenTest(tested_on(test, shifts, sets), test, shifts, sets, custom)


def _measures(
    options: Mapping[str, Any] | None, data: DataSource
) -> tuple[SharpnessSpec, ...]:
    if options is None:
        return ()
    return (SharpnessSpec(partial(worst_case, **options), data),)


def trainings_of(
    methods: Sequence[Method], training: Mapping[str, Any]
) -> dict[str, TrainingSpec]:
    """Return how each method is trained, by its label."""
    options = _of(TrainingSpec, training)
    return {
        label: TrainingSpec(method=method, **options)
        for label, method in zip(labels(methods), methods, strict=True)
    }


def check_comparison(
    plan: Mapping[tuple[str, int], Job],
    train: Dataset[Any],
    given: GivenTest,
    seen: GivenTest,
    store: Store,
) -> nn.Module:
    """Refuse what cannot be trained or tested.

    Args:
        plan: The jobs by method and repetition.
        train: What members learn from.
        given: The test as a caller gave it.
        seen: The same as members see it, which may be features of its samples.
        store: Where everything will be.

    Returns:
        A member.

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
    return ensemble.members[0]


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


def linear_layer(
    member: nn.Module, train: Dataset[Any], loss: Loss
) -> Callable[[], nn.Module] | None:
    """Return the baseline of features and tables.

    None for other inputs, and for members that are a linear layer themselves.

    Example:
        >>> from tepui.data import Arrays
        >>> from tepui.losses import MSE
        >>> rows = Arrays(torch.zeros(2, 5), torch.zeros(2, 1))
        >>> member = nn.Sequential(nn.Linear(5, 2), nn.ReLU(), nn.Linear(2, 1))
        >>> linear_layer(member, rows, MSE())().classifier
        Linear(in_features=5, out_features=1, bias=True)
    """
    few = few_of(train, [member])
    inputs = few.inputs
    layers = [m for m in member.modules() if [*m.parameters(recurse=False)]]
    is_linear = len(layers) == 1 and isinstance(layers[0], nn.Linear)
    if is_linear or not isinstance(inputs, Tensor) or inputs.ndim != 2:
        return None
    if not inputs.is_floating_point():
        return None
    (outputs,) = output_sizes([member], few, loss)
    return partial(MLP, inputs.shape[1], hidden=(), num_classes=outputs)


@dataclass(frozen=True)
class Plan:
    """What all methods of a comparison share.

    Attributes:
        factory: Returns a new member.
        data: What they learn from, with labels and without.
        test: What they are tested on.
        sharpness: Options of their measure of sharpness; None measures none.
        seeds: One per member of all ensembles.
        members: Of each ensemble.
        training: Arguments of :func:`tepui.fit`.
        folder: Where everything will be.
        device: Where they are trained and tested.
        logits_in: How logits are stored.
        linear: Returns a linear layer, the baseline of features and tables.
    """

    factory: Callable[[], nn.Module]
    data: tuple[Given, Given | None]
    test: GivenTest
    sharpness: Mapping[str, Any] | None
    seeds: Sequence[int]
    members: int
    training: Mapping[str, Any]
    folder: Path
    device: torch.device
    logits_in: LogitType
    linear: Callable[[], nn.Module] | None = None

    def jobs(self, trainings: Mapping[str, TrainingSpec]) -> dict[tuple[str, int], Job]:
        """Return a job for each method and repetition."""
        learned, unlabeled = self.data
        measures = _measures(self.sharpness, learned)
        jobs = {}
        for label, training in trainings.items():
            beside = unlabeled if training.method.needs_unlabeled else None
            model = self.linear if label == LINEAR else self.factory
            assert model is not None
            for number in range(len(self.seeds) // self.members):
                first = number * self.members
                own = tuple(self.seeds[first : first + self.members])
                trial = Trial(learned, model, training, own, beside)
                jobs[label, number] = Job(trial, (self.test,), measures)
        return jobs

    def store(self, jobs: Mapping[tuple[str, int], Job]) -> Store:
        """Return where they are done: a folder per method, in it one per ensemble."""
        execution = _of(ExecutionSpec, self.training)
        known = {*execution, *_of(TrainingSpec, self.training)}
        return Store(
            self.folder,
            names={j.trial.digest: run_name(*place) for place, j in jobs.items()},
            device=self.device,
            execution=ExecutionSpec(**execution),
            shared={n: v for n, v in self.training.items() if n not in known},
            logits_in=self.logits_in,
        )


def _of(spec: type, training: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that belong to a specification."""
    names = {field.name for field in fields(spec)}
    return {name: value for name, value in training.items() if name in names}


def run_name(label: str, number: int) -> str:
    """Return the folder of an ensemble.

    Example:
        >>> run_name("SAM(rho=0.1)", 2)
        'SAM-rho=0.1/2'
    """
    return f"{re.sub(r'[^A-Za-z0-9.=]+', '-', label).strip('-')}/{number}"
