"""Training several methods on one data set and evaluating them side by side.

A comparison is a list of jobs over a store in its folder: one per method and
repetition, with a name that a reader knows, so that an interrupted comparison continues
where it stopped. All methods share seeds: ensemble ``r`` starts from the same weights
and sees the same data order under each of them. What came of it are records.
"""

import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, get_args

import torch
from torch import nn
from torch.utils.data import Dataset

from tepui.core.checks import one_of, require
from tepui.core.lease import is_free
from tepui.core.seeding import SEED, member_seeds
from tepui.core.spec import document
from tepui.data import Corrupted
from tepui.data.identity import data_identity
from tepui.data.shifts import Cell, Shifts
from tepui.evaluation.evaluate import Metric
from tepui.evaluation.evaluations import CLEAN, LOGITS, file_of
from tepui.evaluation.gallery import FILE as GALLERY
from tepui.evaluation.gallery import write_gallery
from tepui.evaluation.stored_logits import LogitType
from tepui.methods import DeepEnsemble, Method
from tepui.models.split import frozen
from tepui.modules.state import description
from tepui.studies.comparison_plan import (
    LINEAR,
    Plan,
    check_arguments,
    check_comparison,
    ensembles_for,
    given_test,
    linear_layer,
    run_name,
    trainings_of,
)
from tepui.studies.comparison_records import (
    earlier_results,
    found_in,
    prices_of,
    records_of,
)
from tepui.studies.contrasts import contrast_records
from tepui.studies.equal_price import Equal, at_equal_price, says_its_price, stretched
from tepui.studies.executors import RETRIES, Executor, Processes
from tepui.studies.extracted import FeatureCache, on_features
from tepui.studies.given import Given, GivenTest
from tepui.studies.job import Job, cost_left
from tepui.studies.jobs import IN_PROCESSES, carry_out
from tepui.studies.results import Record, Results, write_results
from tepui.studies.store import Store, device_named
from tepui.training import LocalExchange, TrainingSpec, exchange_here
from tepui.training.progress import Style, counting, in_words
from tepui.training.run_folder import RunFolder, environment_of

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
    ensembles: int | None = None,
    seed: int | Sequence[int] = SEED,
    out: str | Path,
    resume: bool = False,
    device: str | torch.device | None = None,
    at_once: int | None = 1,
    threads: int | None = None,
    retries: int = RETRIES,
    executor: Executor = IN_PROCESSES,
    equal: Equal | None = "gradients",
    dry_run: bool = False,
    announce: Callable[[str], None] = lambda line: None,
    **training: Any,
) -> Results:
    """Train and evaluate several methods, each with the same seeds.

    Features and rows of numbers are also learned by a linear layer, ``Linear``.
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
            and the report show them beside the other scores. A resumed
            comparison takes them anew.
        sharpness: Options of :func:`tepui.sharpness.worst_case`, such as
            ``{"num_samples": 100}``, to measure members on training data; None does
            not.
        unlabeled: Data without labels, for the methods that need them; ``shifted`` data
            of the same kind, with labels, tell whether that helped there.
        extractor: Frozen; members are heads that are trained and tested on
            :func:`tepui.cached_features` of all data, kept in ``out``.
        title: What is compared on what.
        logits_in: How logits are stored, see :func:`tepui.evaluate`. Without them the
            report shows no samples.
        members: Members per ensemble.
        ensembles: Ensembles per method, for intervals; two by default, or as many as
            there are seeds for.
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
        equal: What all methods pay: each has as many epochs as cost at most what the
            costliest one costs in ``epochs``, in ``"gradients"`` or in ``"seconds"``
            that are measured first, and its schedule is stretched with them. None
            trains all for ``epochs``.
        dry_run: Train nothing: return what training would cost, in epochs and passes,
            and in seconds once an ensemble is trained.
        announce: Told what begins.
        training: Further arguments of :func:`tepui.fit`.

    Returns:
        Its records, also written to ``out``.

    Raises:
        FileExistsError: If ``out`` holds something and ``resume`` is false.
        ValueError: If an argument breaks its rule, or a method cannot be trained on the
            data; both before anything is trained.
    """
    exchange = exchange_here()
    folder, place = Path(out), device_named(device)
    ensembles = ensembles_for(seed, members) if ensembles is None else ensembles
    check_arguments(methods, members, ensembles, unlabeled)
    if not resume and not is_free(folder, kept=(FEATURES,)):
        raise FileExistsError(
            f"{folder} is not empty; pass resume=True (--resume) to continue it, or "
            "choose another folder"
        )
    exchange.wait()  # from now on the folder is ours
    seeds = member_seeds(seed, members * ensembles)
    shifts = Shifts.of(shifted)
    if extractor is None and isinstance(shifts.copies, Corrupted):  # made once
        copies = replace(shifts.copies, keep=True).made_on(place)
        shifts = replace(shifts, copies=copies)
    on_images = given_test(test, shifts, ood, metrics)
    seen = _Seen(train, unlabeled, on_images, training)
    if extractor is not None:
        seen = _features_of(seen, frozen(extractor).to(place), folder / FEATURES)
    beside = None if seen.unlabeled is None else Given.of(seen.unlabeled)
    data = Given.of(seen.train), beside
    asked = seen.test, sharpness, seeds, members, seen.training
    plan = Plan(factory, data, *asked, folder, place, logits_in)
    trainings = trainings_of(methods, seen.training)
    jobs = plan.jobs(trainings)
    member = check_comparison(jobs, seen.train, on_images, seen.test, plan.store(jobs))
    first = next(iter(trainings.values()))
    if linear := linear_layer(member, seen.train, first.loss):
        plan = replace(plan, linear=linear)
        trainings[LINEAR] = replace(first, method=DeepEnsemble(), prune=None)
    writes = exchange.writer and not dry_run
    if equal is not None:
        trainings = _at_equal_price(plan, trainings, equal, write=writes)
    jobs = plan.jobs(trainings)
    store, model = plan.store(jobs), type(member).__qualname__
    settings = {
        "members": members,
        "ensembles": ensembles,
        "model": model,
        "extractor": None if extractor is None else description(extractor),
        "train": data_identity(train),
        "unlabeled": None if unlabeled is None else data_identity(unlabeled),
        **seen.test.tested,
        "sharpness": None if sharpness is None else dict(sharpness),
        "seeds": list(seeds),
        "metrics": [*(metrics or ())],
        "equal": equal,
        "threads": None,  # which the first run of the comparison decides
        **{n: _shown(item) for n, item in seen.training.items() if n != "callbacks"},
    }
    if exchange.writer:
        for line in _remarks(trainings, members, equal):
            announce(line)
    names = {"item": title, "architecture": model}
    if dry_run:
        priced = tuple(prices_of(jobs, store, {**names, "unit": "count"}))
        return Results("comparison", title, "", settings, {}, priced)
    earlier = earlier_results(folder, [*trainings], settings)
    if exchange.writer:
        store.write_index()
    if at_once != 1 or not isinstance(executor, Processes):
        rule = "be 1, by processes, where ranks train an ensemble together"
        require(isinstance(exchange, LocalExchange), "at_once", rule, at_once)
    how = {"workers": at_once, "retries": retries, "executor": executor}
    style = training.get("progress", "auto")
    _carry_out(jobs, store, on_images, announce, threads, style, how)
    (one, *_) = jobs.values()
    settings["threads"] = RunFolder(store.folder(one.trial)).threads()
    settings["methods"] = {n: document(each.method) for n, each in trainings.items()}
    settings["runs"] = {
        label: [run_name(label, number) for number in range(ensembles)]
        for label in trainings
    }
    records = _records(jobs, store, settings, earlier, names)
    found = Results("comparison", title, "", settings, environment_of(place), records)
    if exchange.writer:
        write_results(folder, found)
    return found


class _Seen(NamedTuple):
    """What members learn from and are tested on, and how they are trained."""

    train: Dataset[Any]
    unlabeled: Dataset[Any] | None
    test: GivenTest
    training: dict[str, Any]


def _features_of(given: _Seen, front: nn.Module, folder: Path) -> _Seen:
    """Return the features of all data, which are computed once."""
    exchange, training = exchange_here(), given.training
    rule, augment = "be left out when there is an extractor", training.get("augment")
    require(not augment, "augment", rule, augment)
    shown: Style = training.get("progress", "auto") if exchange.writer else "none"
    cache = FeatureCache(front, folder, shown)
    with exchange.writer_first():
        learned, test = cache.read(given.train), on_features(given.test, cache)
        beside = None if given.unlabeled is None else cache.read(given.unlabeled)
        if isinstance(validation := training.get("validation"), Dataset):
            training = {**training, "validation": cache.read(validation)}
    return _Seen(learned, beside, test, training)


def _at_equal_price(
    plan: Plan, trainings: Mapping[str, TrainingSpec], equal: Equal, *, write: bool
) -> dict[str, TrainingSpec]:
    """Return runs that cost as much as the costliest of those asked for."""
    one_of("equal", equal, get_args(Equal))

    def seconds_of(label: str) -> float:
        short = plan.jobs({label: stretched(trainings[label], 2)})
        pace = plan.store(short).seconds_per_pass(short[label, 0].trial)
        return exchange_here().told(pace)

    price = plan.members, equal, plan.folder, seconds_of
    return at_equal_price(trainings, *price, write=write)


def _records(
    jobs: Mapping[tuple[str, int], Job],
    store: Store,
    settings: dict[str, Any],
    earlier: Results | None,
    names: Mapping[str, Any],
) -> tuple[Record, ...]:
    """Return all records, those of earlier methods before, which settings take in."""
    records: list[Record] = []
    for label in settings["methods"]:
        mine = [job for (name, _), job in jobs.items() if name == label]
        found, trials = [found_in(store, job) for job in mine], [j.trial for j in mine]
        records += records_of(found, trials, names={**names, "method": label})
    if earlier is not None:
        records = [*_kept(earlier, settings["runs"]), *records]
        for part in ("methods", "runs"):
            settings[part] = {**earlier.settings[part], **settings[part]}
    folders = {
        n: [store.path / run for run in runs] for n, runs in settings["runs"].items()
    }
    return (*records, *contrast_records(folders, names))


def _remarks(
    trainings: Mapping[str, TrainingSpec], members: int, equal: Equal | None
) -> Iterator[str]:
    """Yield what to know before the methods' runs, with their labels."""
    for label, training in trainings.items():
        if (text := training.method.remark(members)) is not None:
            yield f"{label}: {text}"
        if equal == "gradients" and not says_its_price(training.method):
            yield f"{label}: counts as one gradient a sample (define relative_cost)"
    if equal is not None and len({t.epochs for t in trainings.values()}) > 1:
        epochs = ", ".join(f"{label} {t.epochs}" for label, t in trainings.items())
        yield f"epochs at equal {equal} (equal=None: the same for all): {epochs}"


def _kept(earlier: Results, methods: Container[str]) -> Iterator[Record]:
    """Yield the records of methods that are not trained or compared anew."""
    anew = ("_gain", "_difference")
    for record in earlier.records:
        if record.method not in methods and not record.metric.endswith(anew):
            yield record


def _shown(argument: Any) -> Any:
    """Return an argument as a comparison records it; of data, what identifies them."""
    data = isinstance(argument, Dataset)
    return data_identity(argument) if data else document(argument)


def _carry_out(
    plan: Mapping[tuple[str, int], Job],
    store: Store,
    test: GivenTest,
    announce: Callable[[str], None],
    threads: int | None,
    style: Style,
    how: Mapping[str, Any],
) -> None:
    """Do what is left of all jobs: several at a time, or one after the other here."""
    exchange, jobs = exchange_here(), [*plan.values()]
    for job in jobs if exchange.writer else ():
        if test.metrics and store.has(job.trial, test):
            store.forget(job.trial)  # names do not identify metrics
        if not store.has(job.trial, test):
            (store.folder(job.trial) / GALLERY).unlink(missing_ok=True)
    exchange.wait()
    costs = costs_left(jobs, store)
    if exchange.writer and (there := costs.count(0)):
        announce(f"{there} of {len(jobs)} ensembles are trained and tested already")
    if how["workers"] != 1 or not isinstance(how["executor"], Processes):
        if left := len(jobs) - costs.count(0):
            announce(f"{left} ensembles by {type(how['executor']).__name__.lower()}")
        steps = sum(job.steps_left(store) for job in jobs)
        with counting(style, "all", steps) as advance:
            carry_out(jobs, store, advance=advance, threads=threads, **how)
        costs = costs_left(jobs, store)
    took: dict[int, float] = {}
    for place, ((label, number), job) in enumerate(plan.items()):
        (spec,) = job.evaluations
        is_tested = exchange.told(store.has(job.trial, spec))
        begun = time.monotonic()
        if exchange.writer:
            if costs[place]:
                stands = where_it_stands(costs, place, took)
                count = sum(name == label for name, _ in plan)
                announce(f"{label}, ensemble {number + 1} of {count} ({stands})")
            carry_out([job], store, threads=threads)
            store.run(job.trial)  # refuses what was trained in another way
            folder = store.folder(job.trial)
            kept = file_of(folder, CLEAN, LOGITS).exists()
            if kept and not (folder / GALLERY).exists():
                write_gallery(folder, test.test, None if place else test.shifted)
        else:
            store.run(job.trial)
            if not is_tested:
                store.evaluation(job.trial, spec)
        exchange.wait()  # the writer measures
        if not is_tested:
            took[place] = time.monotonic() - begun


def costs_left(jobs: Sequence[Job], store: Store) -> list[int]:
    """Return what each job still costs a member, in epochs of one gradient a sample.

    That is 0 where the store has everything, and at least 1 where it has not.
    """
    return [_cost(job, store) for job in jobs]


def _cost(job: Job, store: Store) -> int:
    if not job.steps_left(store):
        return 0
    if store.is_trained(job.trial):
        return 1  # its test, or a measure
    left = cost_left(job.trial, store.epochs_done(job.trial))
    return max(1, round(left / len(job.trial.seeds)))


def where_it_stands(costs: Sequence[int], place: int, took: Mapping[int, float]) -> str:
    """Return which job begins, and the time left from how long others took.

    Args:
        costs: What every job cost when the study began or went on, 0 where nothing was
            left of it.
        place: Which of them begins.
        took: Seconds of those that were done since.
    """
    done = f"{place + 1} of {len(costs)} in all"
    if not took:
        is_last = not any(costs[place + 1 :])
        return done if is_last else f"{done}; the time left is told once one is trained"
    unit = sum(took.values()) / sum(costs[each] for each in took)
    return f"{done}, about {in_words(unit * sum(costs[place:]))} left"
