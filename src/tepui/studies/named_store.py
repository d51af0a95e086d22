"""A store that people read: a folder per trial with a name instead of a digest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from tepui.core.storage import read_document
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.cost import write_cost
from tepui.evaluation.evaluations import forget, is_evaluated, read_evaluation
from tepui.studies.given import EvaluationRequest, Request
from tepui.studies.specifications import SharpnessSpec, Trial
from tepui.studies.store import Store
from tepui.studies.trained import SHARPNESS, SHARPNESS_KIND


class NamedStore(Store):
    """A store whose run folders have names.

    Each holds one evaluation and one measurement, where ``tepui evaluate`` and ``tepui
    report`` look for them; another request replaces them. The run folder checks that it
    holds the trial of its name.
    """

    def __init__(
        self, path: str | Path, names: Mapping[str, str], **options: Any
    ) -> None:
        super().__init__(path, **options)
        self._names = names

    def folder(self, trial: Trial) -> Path:
        """Return the run folder of a trial, whether or not it is there."""
        return self.path / self._names[trial.digest]

    def has(self, trial: Trial, request: Request) -> bool:
        """Return whether what is there answers this request."""
        folder = self.folder(trial)
        if isinstance(request, SharpnessSpec):
            file = self._file(trial, request)
            known = read_document(file, SHARPNESS_KIND) if file.exists() else None
        else:
            known = read_evaluation(folder) if is_evaluated(folder) else None
        return known is not None and request.is_answered_by(known)

    def forget(self, trial: Trial) -> None:
        """Let a trial be evaluated anew."""
        with self._lease(self.folder(trial)):
            forget(self.folder(trial))

    def _note_cost(self, ensemble: Ensemble, test: Dataset[Any], folder: Path) -> None:
        """Write what a prediction costs, for the report."""
        write_cost(ensemble, test, folder)

    def _check_importable(self, **described: Trial | Request) -> None:
        """Accept any model: folders are checked, not identified by a digest."""

    def _file(self, trial: Trial, request: SharpnessSpec) -> Path:
        return self.folder(trial) / SHARPNESS

    def _answers(self, trial: Trial, request: EvaluationRequest) -> Path:
        return self.folder(trial)
