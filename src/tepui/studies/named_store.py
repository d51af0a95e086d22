"""A store that people read: a folder per trial with a name instead of a digest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tepui.core.storage import read_json, write_json
from tepui.evaluation.custom_metrics import rescored
from tepui.evaluation.stored_logits import read_logits
from tepui.studies.given import GivenTest, Question
from tepui.studies.specifications import SharpnessSpec, Trial
from tepui.studies.store import Store
from tepui.studies.trained import EVALUATION, SHARPNESS


class NamedStore(Store):
    """A store whose run folders have names.

    Each holds one evaluation and one measurement, where ``tepui evaluate`` and ``tepui
    report`` look for them; the answer to another question takes their place. That a
    folder holds the trial of its name is what its run folder checks.
    """

    def __init__(
        self, path: str | Path, names: Mapping[str, str], **options: Any
    ) -> None:
        super().__init__(path, **options)
        self._names = names

    def folder(self, trial: Trial) -> Path:
        """Return the run folder of a trial, whether or not it is there."""
        return self.path / self._names[trial.digest]

    def has(self, trial: Trial, question: Question) -> bool:
        """Return whether this question was the last that was answered."""
        file = self._file(trial, question)
        return file.exists() and question.is_answered_by(read_json(file))

    def rescore(self, trial: Trial, exam: GivenTest) -> None:
        """Take the exam's own metrics anew from stored logits: names tell nothing."""
        file = self._file(trial, exam)
        with self._lock(self.folder(trial)):
            stored = read_logits(file.parent)
            write_json(file, rescored(read_json(file), stored, exam.metrics))

    def _check_importable(self, **described: Trial | Question) -> None:
        """Take any model: what is in a folder is checked, not known by a digest."""

    def _file(self, trial: Trial, question: Question) -> Path:
        measured = isinstance(question, SharpnessSpec)
        return self.folder(trial) / (SHARPNESS if measured else EVALUATION)
