"""Trained ensembles with their logits, scores and measurements, on disk.

Every trial has its own run folder, named by its digest or, where ``index.json`` has one
for it, by a name that people read. It holds evaluations and measurements as well.
Whatever is requested is made if it is missing, under a lease, so that several
processes, also of several machines, can share a store and an interrupted one loses no
finished epoch. What a digest cannot identify, such as a lambda, is refused unless the
caller holds the data: then the run folder checks that it holds the same trial.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args
from warnings import catch_warnings

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import one_of, require
from tepui.core.lease import LEASE, STALE_AFTER, leased
from tepui.core.spec import document, leaves
from tepui.core.storage import read_document, write_document
from tepui.core.types import check_types
from tepui.data import Arrays, Corrupted, corrupted, prepared_like
from tepui.data.corruptions.copies import KEPT_BYTES
from tepui.data.corruptions.files import CorruptedFiles
from tepui.data.image_files import ImageFiles
from tepui.data.shifts import Cell
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.cost import write_cost
from tepui.evaluation.evaluate import evaluate
from tepui.evaluation.evaluations import (
    CLEAN,
    LOGITS,
    file_of,
    forget,
    is_evaluated,
    read_evaluation,
    write_about,
)
from tepui.evaluation.measure import measure
from tepui.evaluation.stored_logits import (
    TYPES,
    LogitRuns,
    LogitType,
    StoredLogits,
    read_logits,
)
from tepui.studies.in_memory import Copies, EvaluationRequest, Given, GivenTest, Request
from tepui.studies.shared_prefixes import beginning
from tepui.studies.specifications import (
    DataSource,
    EvaluationSpec,
    SharpnessSpec,
    Trial,
)
from tepui.training import ExecutionSpec, LocalExchange, Run, exchange_here, train
from tepui.training.checks import asked_for, check_run
from tepui.training.history import EpochRecord
from tepui.training.run_folder import RunFolder

BEGINNINGS = "beginnings"
INDEX, INDEX_KIND = "index.json", "index"
SHARPNESS, SHARPNESS_KIND = "sharpness.json", "measurement"
# Sets of data; the heads of one repetition of SED need half as many. Were all held, a
# study would take more memory with each of its repetitions.
MOST_HELD = 32
Callbacks = Sequence[Callable[[EpochRecord], None]]
IN_SILENCE = ExecutionSpec(progress="none")


class Store:
    """A folder of trials.

    Attributes:
        path: The folder.
        device: Where trials are trained and tested.
        execution: How they are trained.
        shared: Further arguments of :func:`tepui.training.train`, for all trials.
        logits_in: What the logits of evaluations are kept in that nothing reads.
        stale_after: Seconds after which the work of a process that gives no sign of
            life is taken over; the same for all that share the folder.
        names: Folders of trials by their digests, where those of the index are kept.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        device: str | torch.device | None = None,
        execution: ExecutionSpec = IN_SILENCE,
        shared: Mapping[str, Any] | None = None,
        logits_in: LogitType = "float32",
        stale_after: float = STALE_AFTER,
        names: Mapping[str, str] | None = None,
    ) -> None:
        check_types(Store.__init__, locals())
        self.path = Path(path)
        self.names = {**(names or {}), **read_index(self.path)}
        self.device = device_named(device)
        self.execution = replace(execution, device=self.device)
        self.shared = dict(shared or {})
        one_of("logits_in", logits_in, get_args(LogitType))
        self.logits_in = logits_in
        self.stale_after = stale_after
        self._data: dict[str, Dataset[Any]] = {}
        self._copies: dict[str, Corrupted] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: no data, and no wish to show progress."""
        execution = replace(self.execution, progress="none")
        return {**vars(self), "execution": execution, "_data": {}, "_copies": {}}

    def folder(self, trial: Trial) -> Path:
        """Return the run folder of a trial.

        Args:
            trial: The trial.

        Returns:
            The folder, whether or not it exists.
        """
        return self.path / self.names.get(trial.digest, trial.digest)

    def write_index(self) -> None:
        """Write down which trials have folders with names, those before stay."""
        with leased(self.path / f".{INDEX}{LEASE}", self.stale_after):
            before = read_index(self.path)
            new = {d: n for d, n in self.names.items() if n not in before.values()}
            write_document(self.path / INDEX, INDEX_KIND, {"names": new | before})

    def is_trained(self, trial: Trial) -> bool:
        """Return whether the training of a trial has finished.

        Args:
            trial: The trial.

        Returns:
            Whether its ensemble is in the store.
        """
        return RunFolder(self.folder(trial)).finished

    def lease(self, trial: Trial) -> Path:
        """Return the folder of the lease under which a trial is worked on.

        Args:
            trial: The trial.

        Returns:
            The folder, whether or not it exists.
        """
        return _lease_of(self.folder(trial))

    def epochs_done(self, trial: Trial, beginnings: Sequence[int] = ()) -> int:
        """Return how many epochs of a trial there are, whichever process trains it.

        Args:
            trial: The trial.
            beginnings: Epochs until which its run is one with others.

        Returns:
            The number, 0 if it was not started.
        """
        folders = [self.folder(trial)]
        folders += [self._beginning(trial, end) for end in beginnings]
        return max(RunFolder(folder).epochs_done for folder in folders)

    def has(self, trial: Trial, request: Request) -> bool:
        """Return whether an evaluation or a measurement is in the store.

        Args:
            trial: The trial.
            request: What to evaluate on, or what to measure.

        Returns:
            Whether nothing is left to compute.
        """
        if isinstance(request, SharpnessSpec):
            file = self._file(trial, request)
            if not file.exists() or file.name != SHARPNESS:
                return file.exists()
            return request.is_answered_by(read_document(file, SHARPNESS_KIND))
        folder = self._answers(trial, request)
        if not is_evaluated(folder):
            return False
        if isinstance(request, GivenTest):
            return request.is_answered_by(read_evaluation(folder))
        return not request.logits_read or has_logits(folder, request)

    def dataset(self, source: DataSource) -> Dataset[Any]:
        """Return the data of a source, which stay loaded while others are few.

        Args:
            source: Where the data come from.

        Returns:
            The data.
        """
        found = self._data.pop(source.digest, None)
        self._data[source.digest] = source.load(self) if found is None else found
        for longest_unused in [*self._data][:-MOST_HELD]:
            del self._data[longest_unused]
        return self._data[source.digest]

    def test(self, spec: EvaluationSpec) -> GivenTest:
        """Return a test with its data.

        Corrupted copies are made once if there is room: on the host all tests share
        the memory that the copies of one may take, and the earliest have it.
        """
        test = self.dataset(spec.test)
        form: dict[str, Any] = {"types": spec.types, "severities": spec.severities}
        shifted: Copies | None = None
        if spec.released is not None:
            released: CorruptedFiles = spec.released(**form)
            released.like = test if isinstance(test, Arrays | ImageFiles) else None
            shifted = released
        elif spec.types and (shifted := self._copies.get(spec.digest)) is None:
            made = corrupted(test, **form, strength=spec.strength, keep=True)
            made = made.made_on(self.device)
            taken = sum(map(_bytes_kept, (made, *self._copies.values())))
            shifted = made if taken <= KEPT_BYTES else replace(made, keep=False)
            self._copies[spec.digest] = shifted
        ood = {n: prepared_like(self.dataset(data), test) for n, data in spec.ood}
        return GivenTest(spec.about, test, shifted, ood, rule=spec.rule)

    def run(
        self,
        trial: Trial,
        *,
        beginnings: Sequence[int] = (),
        on_epoch: Callable[[EpochRecord], None] | None = None,
    ) -> Run:
        """Return a trained trial; train it, or what is left of it, if necessary.

        Args:
            trial: The trial.
            beginnings: Epochs, ascending, until which the run is one with others; each
                of these parts is trained once and kept.
            on_epoch: Called with the record of every epoch that is trained now.

        Returns:
            The run with its ensemble.

        Raises:
            ValueError: If a digest cannot identify the trial.
        """
        check_importable(trial)
        callbacks = [*self.shared.get("callbacks", ())]
        callbacks += [] if on_epoch is None else [on_epoch]
        origin = None
        if beginnings and not RunFolder(self.folder(trial)).checkpoint.exists():
            check_trial(trial, self.dataset, self.execution, self.shared)
            origin = self._begun(trial, beginnings, callbacks)
        with self._lease(self.folder(trial)) as checks:
            return self._train(
                trial,
                self.folder(trial),
                self.execution,
                branch_from=origin,
                callbacks=[*callbacks, *checks],
            )

    def logits(self, trial: Trial, spec: EvaluationRequest) -> StoredLogits:
        """Return the logits of all members, computed if they are missing.

        Args:
            trial: The trial.
            spec: What to evaluate on.

        Returns:
            Logits and labels of every data set.
        """
        if isinstance(spec, EvaluationSpec):
            spec = replace(spec, logits_read=True)
        self._evaluate(trial, spec)
        return read_logits(self._answers(trial, spec))

    def logit_runs(
        self, trial: Trial, spec: EvaluationSpec, data: Cell | str | None = None
    ) -> LogitRuns:
        """Return the logits of one data set to be read in runs, for those too large.

        Args:
            trial: The trial.
            spec: What to evaluate on; computed if it is missing.
            data: Which of its data sets, see :meth:`LogitRuns.open`.

        Returns:
            The logits, of which none have been read.
        """
        self._evaluate(trial, replace(spec, logits_read=True))
        return LogitRuns.open(self._answers(trial, spec), data)

    def evaluation(self, trial: Trial, spec: EvaluationRequest) -> dict[str, Any]:
        """Return the scores of an ensemble, computed if they are missing.

        Args:
            trial: The trial.
            spec: What to evaluate on.

        Returns:
            The document of :meth:`tepui.Evaluation.document`.
        """
        self._evaluate(trial, spec)
        return read_evaluation(self._answers(trial, spec))

    def seconds_per_pass(self, trial: Trial) -> float:
        """Return how long a pass of a member's data takes, in a trial's last epoch.

        The trial is trained for that, and forgotten.
        """
        unlabeled = None if trial.unlabeled is None else self.dataset(trial.unlabeled)
        run = train(
            Ensemble.build(trial.model, len(trial.seeds), trial.seeds),
            self.dataset(trial.data),
            trial.training,
            replace(self.execution, progress="none"),
            unlabeled=unlabeled,
        )
        last = trial.training.costs(len(trial.seeds))[-1]
        return run.history[-1].seconds / last

    def pace(self, trials: Sequence[Trial]) -> float | None:
        """Return how long a pass took those that are trained; None if none is."""
        done = [trial for trial in trials if self.is_trained(trial)]
        took = [RunFolder(self.folder(each)).outcome().timeline for each in done]
        passes = sum(sum(each.training.costs(len(each.seeds))) for each in done)
        return sum(sum(each.values()) for each in took) / passes if done else None

    def measured(self, trial: Trial, spec: SharpnessSpec) -> dict[str, Any]:
        """Return a sharpness measure of all members, computed if it is missing.

        Args:
            trial: The trial.
            spec: What to measure, and on which data.

        Returns:
            Documents by the names that :func:`tepui.measure` gives.
        """
        check_importable(trial, measure=spec)
        file = self._file(trial, spec)
        if not self.has(trial, spec):
            ensemble = self.run(trial).ensemble
            dataset = self.dataset(spec.data or trial.data)
            with self._lease(self.folder(trial)):
                if not self.has(trial, spec):  # nor measured by another meanwhile
                    if isinstance(dataset, Arrays):
                        dataset = dataset.to(self.device)
                    found = measure(ensemble, dataset, spec.function)
                    document = {name: value.document() for name, value in found.items()}
                    answer = {"about": spec.about, "found": document}
                    write_document(file, SHARPNESS_KIND, answer)
        result: dict[str, Any] = read_document(file, SHARPNESS_KIND)["found"]
        return result

    def _begun(self, trial: Trial, ends: Sequence[int], callbacks: Callbacks) -> Path:
        """Return the folder of what a trial is until the last of some epochs."""
        *earlier, last = ends
        folder = self._beginning(trial, last)
        with self._lease(folder) as checks:
            checkpoint = RunFolder(folder).load_checkpoint()
            if checkpoint is None or len(checkpoint.history) < last:
                origin = self._begun(trial, earlier, callbacks) if earlier else None
                execution = replace(self.execution, stop_after=last)
                how = {"branch_from": origin, "callbacks": [*callbacks, *checks]}
                self._train(beginning(trial, last), folder, execution, **how)
        return folder

    def _beginning(self, trial: Trial, epochs: int) -> Path:
        return self.path / BEGINNINGS / f"{beginning(trial, epochs).digest}-{epochs}"

    def _train(
        self, trial: Trial, folder: Path, execution: ExecutionSpec, **how: Any
    ) -> Run:
        unlabeled = None if trial.unlabeled is None else self.dataset(trial.unlabeled)
        return train(
            Ensemble.build(trial.model, len(trial.seeds), trial.seeds),
            self.dataset(trial.data),
            trial.training,
            execution,
            unlabeled=unlabeled,
            out=folder,
            resume=True,
            **{**self.shared, **how},
        )

    def _evaluate(self, trial: Trial, spec: EvaluationRequest) -> None:
        check_importable(trial, evaluation=spec)
        if self.has(trial, spec):
            return
        ensemble = self.run(trial).ensemble
        given = spec if isinstance(spec, GivenTest) else self.test(spec)
        folder, exchange = self._answers(trial, spec), exchange_here()
        with self._lease(self.folder(trial)):
            if exchange.told(self.has(trial, spec)):  # another process was faster
                return
            if exchange.writer:  # what is of another test is of no use
                forget(folder)
            exchange.wait()
            evaluate(
                ensemble,
                given.test,
                shifted=given.shifted,
                ood=given.ood,
                metrics=given.metrics,
                rule=given.rule,
                precision=RunFolder(self.folder(trial)).exam_precision(),
                out=folder,
                overwrite=True,
                logits_in=kept_in(spec, self.logits_in),
                exchange=None if isinstance(exchange, LocalExchange) else exchange,
            )
            if exchange.writer:
                if given is spec:  # what else is stored does not depend on the machine
                    write_cost(ensemble, given.test, folder)
                write_about(folder, spec.about)
        exchange.wait()  # for the files

    def forget(self, trial: Trial) -> None:
        """Let a trial be evaluated anew on data at hand."""
        with self._lease(self.folder(trial)):
            forget(self.folder(trial))

    def _file(self, trial: Trial, request: SharpnessSpec) -> Path:
        """Return where a measurement is written; of data at hand there is one place."""
        given = isinstance(request.data or trial.data, Given)
        name = SHARPNESS if given else f"measure-{request.digest}.json"
        return self.folder(trial) / name

    def _answers(self, trial: Trial, request: EvaluationRequest) -> Path:
        """Return the folder that an evaluation is written into.

        What is asked with data at hand has one place, where other commands find it;
        another such request replaces it.
        """
        folder = self.folder(trial)
        given = isinstance(request, GivenTest)
        return folder if given else folder / f"evaluation-{request.digest}"

    @contextmanager
    def _lease(self, folder: Path) -> Iterator[Callbacks]:
        """Keep others out of a folder; yield what notices that one has taken over.

        Ranks of one run are in it together.
        """
        if not exchange_here().writer:
            yield ()
            return
        with leased(_lease_of(folder), self.stale_after) as lease:
            yield (lease.check,)


def _bytes_kept(copies: Corrupted) -> int:
    """Return how much of the host's memory copies may take; those of a GPU none."""
    on_host = copies.keep and copies.dataset.device.type == "cpu"
    images = copies.dataset.inputs
    assert isinstance(images, Tensor), "images are one tensor"
    return len(copies) * images.numel() if on_host else 0


def _lease_of(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}{LEASE}")


def device_named(name: str | torch.device | None) -> torch.device:
    """Return the device of a name; without one, a GPU if there is any."""
    try:
        return torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError:
        raise ValueError(
            f"device must be one that torch knows, such as cpu or cuda, got {name!r}"
        ) from None


def kept_in(spec: EvaluationRequest, otherwise: LogitType) -> LogitType:
    """Return the type in which the logits of an evaluation are to be kept.

    Args:
        spec: The evaluation.
        otherwise: The type of logits that nothing reads.
    """
    if isinstance(spec, EvaluationSpec) and spec.logits_read:
        return spec.logits_in
    return otherwise


def has_logits(folder: Path, spec: EvaluationSpec) -> bool:
    """Return whether a folder has logits as an evaluation has them read."""
    if not file_of(folder, CLEAN, LOGITS).is_file():
        return False
    return LogitRuns.open(folder).array.dtype == TYPES[spec.logits_in]


def check_importable(trial: Trial, **requests: Request) -> None:
    """Raise if a description rests on what no module holds under its name.

    Of a trial with data at hand the run folder knows what it was.
    """
    if isinstance(trial.data, Given):
        return
    rule = (
        "be a class or function at the top of a module (or functools.partial of one), "
        "since a store knows it by its path"
    )
    described = {"trial": document(trial)}
    described |= {name: document(request) for name, request in requests.items()}
    for place, leaf in leaves(described):
        nameless = re.search(r"<(lambda|locals)>", str(leaf))
        require(nameless is None, place.removesuffix(".class"), rule, leaf)


def read_index(folder: Path) -> dict[str, str]:
    """Return the names of a store's folders, by the digests of their trials."""
    file = folder / INDEX
    return dict(read_document(file, INDEX_KIND)["names"]) if file.is_file() else {}


def check_trial(
    trial: Trial,
    load: Callable[[DataSource], Dataset[Any]],
    execution: ExecutionSpec,
    shared: Mapping[str, Any],
    ensemble: Ensemble | None = None,
) -> None:
    """Refuse what training would refuse before its first step.

    Args:
        trial: What will be trained.
        load: Returns the data of a source.
        execution: How it will be trained.
        shared: Further arguments of :func:`tepui.training.train`.
        ensemble: The members that it begins with; built if they are not given.

    Raises:
        ValueError: What training would say.
    """
    members = ensemble or Ensemble.build(trial.model, len(trial.seeds), trial.seeds)
    given = {name: shared.get(name) for name in ("validation", "sample_weights")}
    given["unlabeled"] = None if trial.unlabeled is None else load(trial.unlabeled)
    with catch_warnings(action="ignore"):  # training says them at its turn
        learned = load(trial.data)
        asked = asked_for(
            members, learned, trial.training, execution, out=trial.digest, **given
        )
        check_run(members, *asked, LocalExchange())
