"""What a comparison would train and test, and in which folders, before it does.

One job per method and repetition; all methods share seeds.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.spec import written
from tepui.data import prepared_like
from tepui.data.shifts import Shifts
from tepui.data.sources import tested_on
from tepui.evaluation.examiner import Metric, check_metrics
from tepui.evaluation.ood import check_ood
from tepui.evaluation.stored_logits import LogitType
from tepui.methods import Method
from tepui.sharpness import worst_case
from tepui.studies.given import Given, GivenTest, Named
from tepui.studies.job import Job
from tepui.studies.specifications import DataSource, SharpnessSpec, Trial
from tepui.studies.store import Store
from tepui.training import ExecutionSpec, TrainingSpec


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
    if isinstance(sets, Mapping):
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


def jobs_of(
    trainings: Mapping[str, TrainingSpec],
    factory: Callable[[], nn.Module],
    data: tuple[Given, Given | None],
    spec: GivenTest,
    sharpness: Mapping[str, Any] | None,
    seeds: Sequence[int],
    members: int,
) -> dict[tuple[str, int], Job]:
    """Return a job for each method and repetition."""
    learned, unlabeled = data
    jobs = {}
    for label, training in trainings.items():
        beside = unlabeled if training.method.needs_unlabeled else None
        for number in range(len(seeds) // members):
            own = tuple(seeds[number * members : (number + 1) * members])
            trial = Trial(learned, factory, training, own, beside)
            jobs[label, number] = Job(trial, (spec,), _measures(sharpness, learned))
    return jobs


def _of(spec: type, training: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that belong to a specification."""
    names = {field.name for field in fields(spec)}
    return {name: value for name, value in training.items() if name in names}


def store_of(
    folder: Path,
    device: torch.device,
    plan: Mapping[tuple[str, int], Job],
    training: Mapping[str, Any],
    logits_in: LogitType,
) -> Store:
    """Return where the jobs are done: a folder per method, one in it per ensemble."""
    execution = _of(ExecutionSpec, training)
    others = training.keys() - execution.keys() - _of(TrainingSpec, training).keys()
    return Store(
        folder,
        names={j.trial.digest: run_name(*place) for place, j in plan.items()},
        device=device,
        execution=ExecutionSpec(**execution),
        shared={name: training[name] for name in others},
        logits_in=logits_in,
    )


def run_name(label: str, number: int) -> str:
    """Return the folder of an ensemble.

    Example:
        >>> run_name("SAM(rho=0.1)", 2)
        'SAM-rho=0.1/2'
    """
    return f"{re.sub(r'[^A-Za-z0-9.=]+', '-', label).strip('-')}/{number}"
