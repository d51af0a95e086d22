"""A store that people read: a folder per trial with a name instead of a digest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.storage import read_document, write_document
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.cost import prediction_cost
from tepui.evaluation.custom_metrics import rescored
from tepui.evaluation.examination import COST, COST_KIND, EVALUATION, EVALUATION_KIND
from tepui.evaluation.stored_logits import LOGITS, read_logits
from tepui.studies.given import GivenTest, Request
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
        file = self._file(trial, request)
        if not file.exists():
            return False
        measured = isinstance(request, SharpnessSpec)
        kind = SHARPNESS_KIND if measured else EVALUATION_KIND
        return request.is_answered_by(read_document(file, kind))

    def rescore(self, trial: Trial, spec: GivenTest) -> None:
        """Recompute custom metrics from stored logits; names do not identify them."""
        file = self._file(trial, spec)
        with self._lease(self.folder(trial)):
            rule = "be there for metrics to be taken anew (logits_in)"
            require((file.parent / LOGITS).exists(), LOGITS, rule, "none")
            stored = read_logits(file.parent)
            before = read_document(file, EVALUATION_KIND)
            after = rescored(before, stored, spec.metrics)
            write_document(file, EVALUATION_KIND, after)

    def _note_cost(self, ensemble: Ensemble, test: Dataset[Any], folder: Path) -> None:
        """Write what a prediction costs, for the report."""
        cost = prediction_cost(ensemble, test).document()
        write_document(folder / COST, COST_KIND, cost)

    def _check_importable(self, **described: Trial | Request) -> None:
        """Accept any model: folders are checked, not identified by a digest."""

    def _file(self, trial: Trial, request: Request) -> Path:
        measured = isinstance(request, SharpnessSpec)
        return self.folder(trial) / (SHARPNESS if measured else EVALUATION)
