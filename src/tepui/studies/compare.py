"""Training several methods on one data set and evaluating them side by side.

A comparison is a plan over a store in its folder: one job per method and repetition,
with a name that a reader knows, so that an interrupted comparison continues where it
stopped. All methods share seeds: ensemble ``r`` starts from the same weights and sees
the same data order under each of them.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.replacing import is_free
from tepui.core.seeding import SEED, member_seeds
from tepui.core.storage import write_document
from tepui.data import Corrupted, prepared_like
from tepui.data.shifts import Cell, Shifts
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.custom_metrics import Metric, check_metrics
from tepui.evaluation.ood import check_ood
from tepui.evaluation.scores import TAKEN_NAMES
from tepui.evaluation.stored_logits import LOGITS, LogitType
from tepui.methods import Method
from tepui.models.split import frozen
from tepui.modules.state import description
from tepui.sharpness import worst_case
from tepui.studies.comparison import (
    FILE,
    KIND,
    Comparison,
    MethodResult,
    earlier_methods,
)
from tepui.studies.describe import as_written
from tepui.studies.executors import RETRIES, Executor, Processes
from tepui.studies.extracted import FeatureCache, on_features
from tepui.studies.gallery import FILE as GALLERY
from tepui.studies.gallery import write_gallery
from tepui.studies.given import Given, GivenTest, Named, tested_on
from tepui.studies.job import Job
from tepui.studies.jobs import IN_PROCESSES, carry_out
from tepui.studies.named_store import NamedStore
from tepui.studies.specifications import DataSource, SharpnessSpec, Trial
from tepui.studies.standing import where_it_stands
from tepui.studies.store import device_named
from tepui.studies.trained import Trained, read_trained
from tepui.training import ExecutionSpec, LocalExchange, TrainingSpec, exchange_here
from tepui.training.described import data_identity, environment_of, to_jsonable
from tepui.training.inputs import check_labels, classes_of, few_of, output_sizes
from tepui.training.progress import Style, counting
from tepui.training.run_folder import RunFolder
from tepui.training.spec import shards_of

FEATURES = "features"


def compare(
    methods: Sequence[Method],
    factory: Callable[[], nn.Module],
    train: Dataset[Any],
    test: Dataset[Any],
    *,
    shifted: Mapping[Cell, Dataset[Any]] | Mapping[str, Dataset[Any]] | None = None,
    ood: Mapping[str, Dataset[Any]] | None = None,
    metrics: Mapping[str, Metric] | None = None,
    sharpness: Mapping[str, Any] | None = None,
    unlabeled: Dataset[Any] | None = None,
    extractor: nn.Module | None = None,
    title: str = "comparison",
    logits_in: LogitType = "float32",
    members: int = 3,
    ensembles: int = 1,
    seed: int | Sequence[int] = SEED,
    out: str | Path,
    resume: bool = False,
    device: str | torch.device | None = None,
    at_once: int | None = 1,
    threads: int | None = None,
    retries: int = RETRIES,
    executor: Executor = IN_PROCESSES,
    announce: Callable[[str], None] = lambda line: None,
    **training: Any,
) -> Comparison:
    """Train and evaluate several methods, each with the same seeds.

    Under torchrun the members of each ensemble are dealt to its ranks, which share the
    batches of its test too; rank 0 writes.

    Args:
        methods: What to compare.
        factory: Returns a new member, or a new head where there is an extractor.
        train: Training data.
        test: Clean test data.
        shifted: Shifted test data by (type, severity), or natural shifts by name, as
            for :func:`tepui.evaluate`; natural ones are brought to the form of the test
            data.
        ood: Unfamiliar data by name; images are brought to the form of the test data
            by :func:`tepui.data.prepared_like`.
        metrics: Metrics of your own by name, as for :func:`tepui.evaluate`; the table
            and the report show them beside the other scores. A resumed comparison
            takes them anew from the logits it stored.
        sharpness: Options of :func:`tepui.sharpness.worst_case`, such as
            ``{"num_samples": 100}``, to measure members on training data; None does
            not.
        unlabeled: Data without labels, for the methods that need them.
        extractor: Frozen; members are heads that are trained and tested on
            :func:`tepui.cached_features` of all data, kept in ``out``.
        title: What is compared on what.
        logits_in: How logits are stored, see :func:`tepui.evaluate`. Without them the
            report shows no samples, and ``metrics`` cannot be resumed.
        members: Members per ensemble.
        ensembles: Ensembles per method, for standard errors.
        seed: One integer, or one per member of all ensembles.
        out: The comparison's folder; a run folder for every ensemble lies in it, such
            as ``SAM/0``.
        resume: Continue the comparison in ``out``. Methods that it has already stay in
            it beside the ones named here.
        device: Where to train and evaluate.
        at_once: Ensembles trained at a time; None for as many as the executor has room
            for.
        threads: Threads of each ensemble on a CPU, on which the last bits of results
            depend; by default one if several are trained at a time, else torch's
            number.
        retries: How often an ensemble is taken up again after its worker died.
        executor: Who trains them, see :mod:`tepui.studies.executors`; one at a time is
            trained in this process unless another executor is given.
        announce: Told what begins.
        training: Further arguments of :func:`tepui.fit`.

    Returns:
        The comparison, also written to ``out``.

    Raises:
        FileExistsError: If ``out`` holds something and ``resume`` is false.
        ValueError: If an argument breaks its rule.
    """
    exchange = exchange_here()
    folder, place = Path(out), device_named(device)
    _check(methods, members, ensembles, unlabeled)
    _require_free(folder, resume)
    exchange.wait()  # from now on the folder is ours
    seeds = member_seeds(seed, members * ensembles)
    shifts = Shifts.of(shifted)
    if extractor is None and isinstance(shifts.copies, Corrupted):
        kept = replace(shifts.copies, keep=True).made_on(place)
        shifts = replace(shifts, copies=kept)
    on_images = spec = _test_spec(test, shifts, ood, metrics)
    learned, beside = train, unlabeled
    if extractor is not None:
        augment = training.get("augment")
        require(
            not augment, "augment", "be left out when there is an extractor", augment
        )
        front = frozen(extractor).to(place)
        shown: Style = training.get("progress", "auto") if exchange.writer else "none"
        cache = FeatureCache(front, folder / FEATURES, shown)
        with exchange.writer_first():
            learned, spec = cache.read(train), on_features(on_images, cache)
            beside = None if unlabeled is None else cache.read(unlabeled)
    data = Given.of(learned), None if beside is None else Given.of(beside)
    plan = _plan(methods, factory, data, spec, sharpness, seeds, members, training)
    model = _check_test(next(iter(plan.values())).trial, learned, test)
    settings = {
        "members": members,
        "ensembles": ensembles,
        "model": model,
        "extractor": None if extractor is None else description(extractor),
        "train": data_identity(train),
        "unlabeled": None if unlabeled is None else data_identity(unlabeled),
        **spec.tested,
        "sharpness": None if sharpness is None else dict(sharpness),
        "seeds": list(seeds),
        "threads": None,  # which the first run of the comparison decides
        **{n: to_jsonable(item) for n, item in training.items() if n != "callbacks"},
    }
    results = earlier_methods(folder, labels(methods), settings)
    store = _store(folder, place, plan, training, logits_in)
    before = {j.trial.digest for j in plan.values() if store.has(j.trial, on_images)}
    for job in plan.values():
        if exchange.writer and job.trial.digest not in before:
            (store.folder(job.trial) / GALLERY).unlink(missing_ok=True)
    if at_once != 1 or not isinstance(executor, Processes):
        rule = "be 1, by processes, where ranks train an ensemble together"
        require(isinstance(exchange, LocalExchange), "at_once", rule, at_once)
        announce(f"{len(plan)} ensembles by {type(executor).__name__.lower()}")
        steps = sum(job.steps_left(store) for job in plan.values())
        with counting(training.get("progress", "auto"), "all", steps) as advance:
            carry_out(
                plan.values(),
                store,
                workers=at_once,
                retries=retries,
                executor=executor,
                advance=advance,
                threads=threads,
            )
    trained: dict[str, list[Trained]] = {}
    took: dict[int, float] = {}
    for place_in_plan, ((label, number), job) in enumerate(plan.items()):
        is_tested = exchange.told(store.has(job.trial, spec))
        begun = time.monotonic()
        if exchange.writer:
            stands = where_it_stands([*plan.values()], place_in_plan, took)
            announce(f"{label}, ensemble {number + 1} of {ensembles} ({stands})")
            _carry_out(job, store, on_images, job.trial.digest in before, threads)
        else:
            store.run(job.trial)
            if not is_tested:
                store.evaluation(job.trial, spec)
        exchange.wait()  # the writer measures
        if not is_tested:
            took[place_in_plan] = time.monotonic() - begun
        trained.setdefault(label, []).append(_read(job, store))
    for (label, rows), method in zip(trained.items(), methods, strict=True):
        results[label] = MethodResult(label, to_jsonable(method), tuple(rows))
    first = next(iter(results.values())).ensembles[0].folder
    settings["threads"] = RunFolder(folder / first).threads()
    found = tuple(results.values())
    comparison = Comparison(title, settings, environment_of(place), found)
    if exchange.writer:
        write_document(folder / FILE, KIND, asdict(comparison))
    return comparison


def planned_comparison(
    methods: Sequence[Method],
    factory: Callable[[], nn.Module],
    train: Dataset[Any],
    test: Dataset[Any],
    *,
    shifted: Mapping[Cell, Dataset[Any]] | Mapping[str, Dataset[Any]] | None = None,
    ood: Mapping[str, Dataset[Any]] | None = None,
    unlabeled: Dataset[Any] | None = None,
    members: int = 3,
    ensembles: int = 1,
    seed: int | Sequence[int] = SEED,
    out: str | Path,
    device: str | torch.device | None = None,
    logits_in: LogitType = "float32",
    **training: Any,
) -> tuple[dict[str, list[Job]], NamedStore]:
    """Return what :func:`compare` would do with these arguments, by method, and where.

    Sharpness is not in it, which takes little.
    """
    _check(methods, members, ensembles, unlabeled)
    seeds = member_seeds(seed, members * ensembles)
    data = Given.of(train), None if unlabeled is None else Given.of(unlabeled)
    spec = _test_spec(test, Shifts.of(shifted), ood, None)
    plan = _plan(methods, factory, data, spec, None, seeds, members, training)
    jobs: dict[str, list[Job]] = {}
    for (label, _), job in plan.items():
        jobs.setdefault(label, []).append(job)
    return jobs, _store(Path(out), device_named(device), plan, training, logits_in)


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
        as_written(method) if counts[name] > 1 else name
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
        "be None unless a method uses unlabeled data",
        type(unlabeled).__name__,
    )


def _require_free(folder: Path, resume: bool) -> None:
    if not resume and not is_free(folder):
        raise FileExistsError(
            f"{folder} is not empty; pass resume=True (--resume) to continue it, or "
            "choose another folder"
        )


def _test_spec(
    test: Dataset[Any],
    shifts: Shifts,
    ood: Named | None,
    metrics: Mapping[str, Metric] | None,
) -> GivenTest:
    """Return the test of all ensembles, other data in the form of the test data."""
    natural = {n: prepared_like(data, test) for n, data in shifts.natural.items()}
    shifts = replace(shifts, natural=natural)
    sets = {} if ood is None else ood
    if isinstance(sets, Mapping):
        sets = {name: prepared_like(data, test) for name, data in sets.items()}
    check_ood(sets, test)
    custom = {} if metrics is None else metrics
    check_metrics(custom, TAKEN_NAMES)
    return GivenTest(tested_on(test, shifts, sets), test, shifts, sets, custom)


def _measures(
    options: Mapping[str, Any] | None, data: DataSource
) -> tuple[SharpnessSpec, ...]:
    if options is None:
        return ()
    return (SharpnessSpec(partial(worst_case, **options), data),)


def _plan(
    methods: Sequence[Method],
    factory: Callable[[], nn.Module],
    data: tuple[Given, Given | None],
    spec: GivenTest,
    sharpness: Mapping[str, Any] | None,
    seeds: Sequence[int],
    members: int,
    training: Mapping[str, Any],
) -> dict[tuple[str, int], Job]:
    """Return a job for each method and repetition."""
    return {
        (label, number): Job(trial, (spec,), _measures(sharpness, trial.data))
        for label, method in zip(labels(methods), methods, strict=True)
        for number, trial in enumerate(
            _trials(method, factory, *data, seeds, members, training)
        )
    }


def _trials(
    method: Method,
    factory: Callable[[], nn.Module],
    data: Given,
    unlabeled: Given | None,
    seeds: Sequence[int],
    members: int,
    training: Mapping[str, Any],
) -> list[Trial]:
    """Return the ensembles of one method."""
    options = _of(TrainingSpec, training)
    shards = options.pop("virtual_shards", 1), training.get("data_parallel", 1)
    spec = TrainingSpec(method=method, virtual_shards=shards_of(*shards), **options)
    beside = unlabeled if method.needs_unlabeled else None
    return [
        Trial(data, factory, spec, tuple(seeds[first : first + members]), beside)
        for first in range(0, len(seeds), members)
    ]


def _of(spec: type, training: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that belong to a specification."""
    names = {field.name for field in fields(spec)}
    return {name: value for name, value in training.items() if name in names}


def _check_test(trial: Trial, train: Dataset[Any], test: Dataset[Any]) -> str:
    """Refuse test labels that members cannot give; return what members are."""
    ensemble = Ensemble.build(trial.model, len(trial.seeds), trial.seeds)
    members = [*ensemble.members]
    few = few_of(train, members)
    sizes = output_sizes(members, few, trial.training.loss)
    classes = classes_of(sizes, few.targets, trial.training.loss)
    check_labels("test", test, classes, train)
    return type(members[0]).__qualname__


def _store(
    folder: Path,
    device: torch.device,
    plan: Mapping[tuple[str, int], Job],
    training: Mapping[str, Any],
    logits_in: LogitType,
) -> NamedStore:
    """Return where the jobs are done: a folder per method, one in it per ensemble."""
    execution = _of(ExecutionSpec, training)
    others = training.keys() - execution.keys() - _of(TrainingSpec, training).keys()
    return NamedStore(
        folder,
        {job.trial.digest: f"{_slug(label)}/{n}" for (label, n), job in plan.items()},
        device=device,
        execution=ExecutionSpec(**execution),
        shared={name: training[name] for name in others},
        logits_in=logits_in,
    )


def _carry_out(
    job: Job,
    store: NamedStore,
    spec: GivenTest,
    evaluated: bool,
    threads: int | None,
) -> None:
    """Do what is left of a job, which was evaluated by an earlier call or not."""
    folder = store.folder(job.trial)
    carry_out([job], store, threads=threads)
    store.run(job.trial)  # refuses what was trained in another way
    if evaluated and spec.metrics:
        store.rescore(job.trial, spec)
    if (folder / LOGITS).exists() and not (folder / GALLERY).exists():
        write_gallery(folder, spec.test, spec.ood)


def _read(job: Job, store: NamedStore) -> Trained:
    """Return what came of a job."""
    folder = store.folder(job.trial)
    trained = replace(read_trained(folder), folder=str(folder.relative_to(store.path)))
    return trained if job.measures else replace(trained, sharpness=None)


def _slug(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9.=]+", "-", label).strip("-")
