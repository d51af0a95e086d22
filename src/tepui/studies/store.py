"""Trained ensembles and what was asked of them, on disk, so that none is made twice.

Every trial has a run folder of its own, named by its digest; answers and measurements
lie inside it. Whatever is asked for is made if it is not there, under a lock, so that
several processes can share a store and an interrupted one loses no finished epoch. What
a digest cannot tell from another, such as a lambda, is refused.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.storage import read_json, write_json
from tepui.data import Arrays, corrupted, prepared_like
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.evaluate import evaluate
from tepui.evaluation.measure import measure
from tepui.evaluation.stored_logits import Cell, StoredLogits, read_logits
from tepui.studies.beginnings import common_part
from tepui.studies.given import Exam, GivenTest, Question
from tepui.studies.importable import check_importable
from tepui.studies.specifications import (
    DataSource,
    EvaluationSpec,
    SharpnessSpec,
    Trial,
    digest,
)
from tepui.studies.trained import EVALUATION
from tepui.training import ExecutionSpec, Run, train
from tepui.training.run_folder import EpochRecord, RunFolder

BEGINNINGS = "beginnings"
KEPT_BYTES = 2**29
IN_SILENCE = ExecutionSpec(progress="none")


class Store:
    """A folder of trials.

    Attributes:
        path: The folder.
        device: Where trials are trained and tested.
        execution: How they are trained.
        shared: Further arguments of :func:`tepui.training.train`, for all trials.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        device: str | torch.device | None = None,
        execution: ExecutionSpec = IN_SILENCE,
        shared: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = Path(path)
        self.device = device_named(device)
        self.execution = replace(execution, device=self.device)
        self.shared = dict(shared or {})
        self._datasets: dict[str, Dataset[Any]] = {}
        self._copies: dict[str, dict[Cell, Arrays]] = {}

    def folder(self, trial: Trial) -> Path:
        """Return the run folder of a trial, whether or not it is there."""
        return self.path / trial.digest

    def is_trained(self, trial: Trial) -> bool:
        """Return whether a trial ended."""
        return RunFolder(self.folder(trial)).finished

    def environment(self, trial: Trial) -> dict[str, Any]:
        """Return versions and hardware with which a trial was begun."""
        found: dict[str, Any] = RunFolder(self.folder(trial)).recorded()["environment"]
        return found

    def has(self, trial: Trial, question: Question) -> bool:
        """Return whether an answer or a measurement is there."""
        return self._file(trial, question).exists()

    def dataset(self, source: DataSource) -> Dataset[Any]:
        """Return the data of a source, loaded once."""
        name = digest(source)
        if name not in self._datasets:
            self._datasets[name] = source.load(self)
        return self._datasets[name]

    def run(
        self,
        trial: Trial,
        *,
        beginnings: Sequence[int] = (),
        on_epoch: Callable[[EpochRecord], None] | None = None,
    ) -> Run:
        """Return a trained trial; train it, or what is left of it, if need be.

        Args:
            trial: What to train.
            beginnings: Epochs, ascending, until which the run is one with others; each
                of these parts is trained once and kept.
            on_epoch: Called with the record of every epoch that is not shared.

        Returns:
            The run.
        """
        self._check_importable(trial=trial)
        origin = None
        if beginnings and not RunFolder(self.folder(trial)).checkpoint.exists():
            origin = self._begun(common_part(trial)[0], beginnings)
        callbacks = [*self.shared.get("callbacks", ())]
        callbacks += [] if on_epoch is None else [on_epoch]
        with self._lock(self.folder(trial)):
            return self._train(
                trial,
                self.folder(trial),
                self.execution,
                branch_from=origin,
                callbacks=callbacks,
            )

    def _begun(self, trial: Trial, ends: Sequence[int]) -> Path:
        """Return the folder of a trial that has been trained until the last epoch."""
        *earlier, last = ends
        folder = self.path / BEGINNINGS / f"{trial.digest}-{last}"
        with self._lock(folder):
            checkpoint = RunFolder(folder).load_checkpoint()
            if checkpoint is None or len(checkpoint.history) < last:
                origin = self._begun(trial, earlier) if earlier else None
                execution = replace(self.execution, stop_after=last)
                self._train(trial, folder, execution, branch_from=origin)
        return folder

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

    def answers(self, trial: Trial, exam: Exam) -> StoredLogits:
        """Return all members' logits on the data of an exam."""
        self._examine(trial, exam)
        return read_logits(self._file(trial, exam).parent)

    def evaluation(self, trial: Trial, exam: Exam) -> dict[str, Any]:
        """Return the scores in an exam, as :meth:`tepui.Evaluation.document` does."""
        self._examine(trial, exam)
        document: dict[str, Any] = read_json(self._file(trial, exam))
        return document

    def measured(self, trial: Trial, question: SharpnessSpec) -> dict[str, Any]:
        """Return a measure of all members, by the names :func:`tepui.measure` gives."""
        self._check_importable(trial=trial, question=question)
        file = self._file(trial, question)
        if not self.has(trial, question):
            ensemble = self.run(trial).ensemble
            data = self.dataset(question.data or trial.data)
            with self._lock(self.folder(trial)):
                if isinstance(data, Arrays):
                    data = data.to(self.device)
                found = measure(ensemble, data, question.function)
                document = {name: value.document() for name, value in found.items()}
                write_json(file, {"about": question.about, "found": document})
        result: dict[str, Any] = read_json(file)["found"]
        return result

    def _examine(self, trial: Trial, exam: Exam) -> None:
        self._check_importable(trial=trial, exam=exam)
        if self.has(trial, exam):
            return
        ensemble = self.run(trial).ensemble
        data = exam if isinstance(exam, GivenTest) else self._test(exam)
        file = self._file(trial, exam)
        with self._lock(self.folder(trial)):
            found = evaluate(
                ensemble,
                data.test,
                shifted=data.shifted,
                ood=data.ood,
                metrics=data.metrics,
                out=file.parent,
                overwrite=True,
            )
            write_json(file, {"about": exam.about, **found.document()})

    def _test(self, exam: EvaluationSpec) -> GivenTest:
        test = self.dataset(exam.test)
        shifted = self._shifted(exam, test) if exam.types else None
        ood = {
            name: prepared_like(self.dataset(source), test) for name, source in exam.ood
        }
        return GivenTest(exam.about, test, shifted, ood)

    def _shifted(
        self, exam: EvaluationSpec, test: Dataset[Any]
    ) -> Mapping[Cell, Arrays]:
        """Return corrupted copies; those of a small test are made once and kept."""
        copies = corrupted(
            test.to(self.device) if isinstance(test, Arrays) else test,
            types=exam.types,
            severities=exam.severities,
            strength=exam.strength,
        )
        inputs = copies.dataset.inputs
        assert isinstance(inputs, Tensor)
        if inputs.numel() * len(copies) > KEPT_BYTES:
            return copies
        if exam.digest not in self._copies:
            self._copies[exam.digest] = dict(copies)
        return self._copies[exam.digest]

    def _check_importable(self, **described: Trial | Question) -> None:
        """Raise if a digest could name something else as well."""
        for argument, value in described.items():
            check_importable(argument, value)

    def _file(self, trial: Trial, question: Question) -> Path:
        """Return the file that is written last when a question is answered."""
        folder = self.folder(trial)
        if isinstance(question, SharpnessSpec):
            return folder / f"measure-{question.digest}.json"
        return folder / f"exam-{question.digest}" / EVALUATION

    def _lock(self, folder: Path) -> FileLock:
        folder.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(folder.with_name(f".{folder.name}.lock"))


def device_named(asked: str | torch.device | None) -> torch.device:
    """Return the device asked for; a GPU if none is and there is one."""
    try:
        return torch.device(asked or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError:
        raise ValueError(
            f"device must be one that torch knows, such as cpu or cuda, got {asked!r}"
        ) from None
