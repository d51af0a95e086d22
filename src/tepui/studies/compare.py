"""Training several methods on one data set and evaluating them side by side.

A comparison is a plan over a store in its folder: one job per method and repetition,
with a name that a reader knows, so that an interrupted comparison continues where it
stopped. All methods share seeds: ensemble ``r`` starts from the same weights and sees
the same data order under each of them.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.seeding import member_seeds
from tepui.core.storage import write_json
from tepui.data import prepared_like
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.evaluate import check_ood
from tepui.evaluation.stored_logits import Cell
from tepui.losses import cross_entropy
from tepui.methods import Method
from tepui.models.split import frozen
from tepui.modules.state import description
from tepui.sharpness import worst_case
from tepui.studies.comparison import FILE, FORMAT, Comparison, MethodResult, Trained
from tepui.studies.extracted import extracted
from tepui.studies.gallery import FILE as GALLERY
from tepui.studies.gallery import write_gallery
from tepui.studies.given import Given, GivenData, GivenTest
from tepui.studies.jobs import Job, carry_out
from tepui.studies.named_store import NamedStore, read_sharpness
from tepui.studies.specifications import SharpnessSpec, Trial
from tepui.studies.store import device_named
from tepui.training import ExecutionSpec, TrainingSpec
from tepui.training.inputs import check_labels, classes_of
from tepui.training.run_folder import environment_of, fingerprint, to_jsonable

FEATURES = "features"


def compare(
    methods: Sequence[Method],
    factory: Callable[[], nn.Module],
    train: Dataset[Any],
    test: Dataset[Any],
    *,
    shifted: Mapping[Cell, Dataset[Any]] | None = None,
    ood: Mapping[str, Dataset[Any]] | None = None,
    sharpness: Mapping[str, Any] | None = None,
    unlabeled: Dataset[Any] | None = None,
    extractor: nn.Module | None = None,
    title: str = "comparison",
    members: int = 3,
    ensembles: int = 1,
    seed: int | Sequence[int] = 13,
    out: str | Path,
    resume: bool = False,
    device: str | torch.device | None = None,
    announce: Callable[[str], None] = lambda line: None,
    **training: Any,
) -> Comparison:
    """Train and evaluate several methods, each with the same seeds.

    Args:
        methods: What to compare.
        factory: Returns a new member, or a new head where there is an extractor.
        train: Training data.
        test: Clean test data.
        shifted: Shifted test data by (type, severity).
        ood: Unfamiliar data by name; images are brought to the form of the test data
            by :func:`tepui.data.prepared_like`.
        sharpness: Options of :func:`tepui.sharpness.worst_case`, such as
            ``{"num_samples": 100}``, to measure members on training data; None does
            not.
        unlabeled: Data without labels, for the methods that need them.
        extractor: Frozen; members are heads that are trained and tested on
            :func:`tepui.cached_features` of all data, kept in ``out``.
        title: What is compared on what.
        members: Members per ensemble.
        ensembles: Ensembles per method, for standard errors.
        seed: One integer, or one per member of all ensembles.
        out: The comparison's folder; a run folder for every ensemble lies in it, such
            as ``SAM/0``.
        resume: Continue the comparison in ``out``.
        device: Where to train and evaluate.
        announce: Told what begins.
        training: Further arguments of :func:`tepui.fit`.

    Returns:
        The comparison, also written to ``out``.

    Raises:
        FileExistsError: If ``out`` holds something and ``resume`` is false.
        ValueError: If an argument breaks its rule.
    """
    folder, place = Path(out), device_named(device)
    _check(methods, members, ensembles, unlabeled)
    _require_free(folder, resume)
    seeds = member_seeds(seed, members * ensembles)
    groups = [seeds[first : first + members] for first in range(0, len(seeds), members)]
    given = GivenData(train, test, shifted, _prepared(ood, test), unlabeled)
    data = given
    if extractor is not None:
        augment = training.get("augment")
        require(not augment, "augment", "be left out beside an extractor", augment)
        data = extracted(given, frozen(extractor).to(place), folder / FEATURES)
    model = _model(factory, groups[0], given, data, training)
    exam = GivenTest(given.tested_on(), data.test, data.shifted, data.ood)
    how = _of(TrainingSpec, training)
    plan = {
        label: _jobs(factory, method, groups, data, exam, sharpness, how)
        for label, method in zip(labels(methods), methods, strict=True)
    }
    store = _store(folder, plan, place, training)
    results = []
    for (label, jobs), method in zip(plan.items(), methods, strict=True):
        trained = []
        for number, job in enumerate(jobs, 1):
            announce(f"{label}, ensemble {number} of {ensembles}")
            trained.append(_trained(job, store, given))
        results.append(MethodResult(label, to_jsonable(method), tuple(trained)))
    settings = {
        "members": members,
        "ensembles": ensembles,
        "model": model,
        "extractor": None if extractor is None else description(extractor),
        "train": fingerprint(train),
        "unlabeled": None if unlabeled is None else fingerprint(unlabeled),
        **exam.about,
        "sharpness": None if sharpness is None else dict(sharpness),
        "seeds": list(seeds),
        "threads": torch.get_num_threads(),
        **{name: to_jsonable(value) for name, value in training.items()},
    }
    comparison = Comparison(title, settings, environment_of(place), tuple(results))
    write_json(folder / FILE, {"format": FORMAT, **asdict(comparison)})
    return comparison


def labels(methods: Sequence[Method]) -> list[str]:
    """Return a name for each method, with hyperparameters where names repeat.

    Example:
        >>> from tepui.methods import SAM, DeepEnsemble
        >>> labels([DeepEnsemble(), SAM(rho=0.1)])
        ['DeepEnsemble', 'SAM']
    """
    names = [type(method).__name__ for method in methods]
    counts = Counter(names)
    shown = [
        repr(method) if counts[name] > 1 else name
        for name, method in zip(names, methods, strict=True)
    ]
    for label, times in Counter(shown).items():
        require(times == 1, "methods", "differ from each other", f"{label} twice")
    return shown


def _check(
    methods: Sequence[Method],
    members: int,
    ensembles: int,
    unlabeled: Dataset[Any] | None,
) -> None:
    require(len(methods) > 0, "methods", "hold at least one method", list(methods))
    require(members > 0, "members", "be positive", members)
    require(ensembles > 0, "ensembles", "be positive", ensembles)
    require(
        unlabeled is None or any(method.needs_unlabeled for method in methods),
        "unlabeled",
        "be None where no method uses such data",
        type(unlabeled).__name__,
    )


def _require_free(folder: Path, resume: bool) -> None:
    if not resume and folder.exists() and any(folder.iterdir()):
        raise FileExistsError(
            f"{folder} is not empty; pass resume=True (--resume) to continue it, or "
            "choose another folder"
        )


def _prepared(
    ood: Mapping[str, Dataset[Any]] | None, test: Dataset[Any]
) -> Mapping[str, Dataset[Any]]:
    """Return unfamiliar data in the form of the test data."""
    sets = {} if ood is None else ood
    if isinstance(sets, Mapping):
        sets = {name: prepared_like(data, test) for name, data in sets.items()}
    check_ood(sets, test)
    return sets


def _model(
    factory: Callable[[], nn.Module],
    seeds: Sequence[int],
    given: GivenData,
    data: GivenData,
    training: Mapping[str, Any],
) -> str:
    """Return the class of a member that can give all labels of the test data."""
    ensemble = Ensemble.build(factory, len(seeds), seeds)
    classes = classes_of(ensemble, data.train, training.get("loss", cross_entropy))
    check_labels("test", given.test, classes, data.train)
    return type(ensemble.members[0]).__qualname__


def _of(spec: type, training: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that belong to a specification."""
    names = {each.name for each in fields(spec)}
    return {name: value for name, value in training.items() if name in names}


def _jobs(
    factory: Callable[[], nn.Module],
    method: Method,
    groups: Sequence[tuple[int, ...]],
    data: GivenData,
    exam: GivenTest,
    sharpness: Mapping[str, Any] | None,
    how: Mapping[str, Any],
) -> list[Job]:
    """Return what is to be done for one method: a job per ensemble."""
    train, unlabeled = Given.of(data.train), None
    if method.needs_unlabeled and data.unlabeled is not None:
        unlabeled = Given.of(data.unlabeled)
    measures: tuple[SharpnessSpec, ...] = ()
    if sharpness is not None:
        measures = (SharpnessSpec(partial(worst_case, **sharpness), train),)
    spec = TrainingSpec(method=method, **how)
    return [
        Job(Trial(train, factory, spec, seeds, unlabeled), (exam,), measures)
        for seeds in groups
    ]


def _store(
    folder: Path,
    plan: Mapping[str, Sequence[Job]],
    device: torch.device,
    training: Mapping[str, Any],
) -> NamedStore:
    """Return where the jobs are done: a folder per method, one in it per ensemble."""
    names = {
        job.trial.digest: f"{_slug(label)}/{number}"
        for label, jobs in plan.items()
        for number, job in enumerate(jobs)
    }
    execution = _of(ExecutionSpec, training)
    known = execution | _of(TrainingSpec, training)
    shared = {name: training[name] for name in training.keys() - known.keys()}
    return NamedStore(
        folder,
        names,
        device=device,
        execution=ExecutionSpec(**execution),
        shared=shared,
    )


def _trained(job: Job, store: NamedStore, given: GivenData) -> Trained:
    """Do what is left of a job and gather what came of it."""
    trial, (exam,) = job.trial, job.exams
    folder = store.folder(trial)
    if not store.has(trial, exam):
        (folder / GALLERY).unlink(missing_ok=True)
    carry_out([job], store, threads=None)
    run = store.run(trial)
    if not (folder / GALLERY).exists():
        write_gallery(folder, given.test, given.ood)
    return Trained(
        folder.relative_to(store.path).as_posix(),
        trial.seeds,
        sum(record.seconds for record in run.history),
        store.evaluation(trial, exam),
        run.summary,
        read_sharpness(folder) if job.measures else None,
    )


def _slug(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9.=]+", "-", label).strip("-")
