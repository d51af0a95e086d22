"""An evaluation that is kept in a folder, beside what is there from before."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from tepui.core.agreement import differences
from tepui.core.checks import require
from tepui.core.storage import read_document, tensors_document, write_document
from tepui.data.identity import data_identity, fingerprint, same_data
from tepui.data.shifts import Shifts
from tepui.data.sources import tested_on
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation import adding
from tepui.evaluation.cost import prediction_cost
from tepui.evaluation.custom_metrics import Metric, check_metrics, rescored
from tepui.evaluation.ensemble_digest import calibration_digest
from tepui.evaluation.evaluate import evaluate
from tepui.evaluation.logit_identity import told_apart_by, written
from tepui.evaluation.results import Evaluation
from tepui.evaluation.stored_logits import LOGITS, read_logits
from tepui.modules.state import weights_digest

EVALUATION, EVALUATION_KIND = "evaluation.json", "evaluation"
COST, COST_KIND = "cost.json", "prediction_cost"
# What a calibration changes of what an evaluation is of.
CALIBRATED = {"calibration", "detectors"}


@dataclass(frozen=True, kw_only=True)
class Examination:
    """An evaluation that is asked for, of an ensemble on some data.

    Attributes:
        folder: Where it is kept.
        ensemble: What is evaluated.
        test: The clean data.
        shifts: The shifted data.
        sets: Unfamiliar data by name.
        metrics: Metrics of one's own by name.
        how: Further keywords of :func:`tepui.evaluate`.
        overwrite: Measure again what was measured before.
    """

    folder: Path
    ensemble: Ensemble
    test: Dataset[Any]
    shifts: Shifts
    sets: Mapping[str, Dataset[Any]]
    metrics: Mapping[str, Metric]
    how: Mapping[str, Any]
    overwrite: bool

    @property
    def names(self) -> list[str]:
        """The names of the data sets beside the clean one."""
        copies = [adding.COPIES] if self.shifts.copies else []
        return [*copies, *self.shifts.natural, *self.sets]

    @cached_property
    def about(self) -> dict[str, Any]:
        """What the data are."""
        found: dict[str, Any] = json.loads(
            json.dumps(tested_on(self.test, self.shifts, self.sets))
        )
        return found

    @cached_property
    def of(self) -> dict[str, Any]:
        """What the evaluation is of, beside its data."""
        calibrated = calibration_digest(self.ensemble)
        known = {} if calibrated is None else {"calibration": calibrated}
        alone = self.how.get("exchange") is None
        return {
            "ensemble": weights_digest(self.ensemble),
            **known,
            "classes": written(self.how.get("classes", "held")),
            "metrics": [*self.metrics],
            "detectors": alone and self.ensemble.detectors is not None,
            "precision": self.how["precision"],
            "rule": self.how.get("rule", "probability"),
        }

    @cached_property
    def before(self) -> tuple[dict[str, Any] | None, bool]:
        """What stays of the evaluation that is there, and whether it has all of this.

        Metrics that it has not are made of its logits.

        Raises:
            FileExistsError: If it is of something else, and is not to be overwritten.
            ValueError: If metrics want logits that are not there.
        """
        file = self.folder / EVALUATION
        if not file.exists():
            return None, False
        found = read_document(file, EVALUATION_KIND)
        changed = self._changes(found)
        if not self.overwrite:
            held = found.get("metrics", ())
            new = {n: f for n, f in self.metrics.items() if n not in held}
            if new and changed - CALIBRATED == {"metrics"}:
                found = self._with_metrics(found, new)
                if changed == {"metrics"} and self._is_on(found):
                    return found, True
                changed = self._changes(found)
            self._check(found, changed)
            if not changed and self._is_on(found):
                return found, True
        if not changed:
            return found, False
        return adding.without_applied(found) if changed <= CALIBRATED else None, False

    @property
    def renews(self) -> bool:
        """Whether the ensemble was calibrated since the evaluation that is there."""
        before, _ = self.before
        return before is not None and bool(self._changes(before))

    def evaluate(self) -> Evaluation:
        """Evaluate the ensemble, and keep what is found beside what stays."""
        before, _ = self.before
        found = evaluate(
            self.ensemble,
            self.test,
            shifted=self.shifts,
            ood=self.sets,
            metrics=self.metrics,
            out=self.folder,
            overwrite=True,
            **self.how,
        )
        exchange = self.how.get("exchange")
        if exchange is None or exchange.writer:
            cost = prediction_cost(self.ensemble, self.test).document()
            write_document(self.folder / COST, COST_KIND, cost)
            document = found.document()
            fitted_on = self.ensemble.calibrated_on
            if found.applied and same_data(fitted_on, fingerprint(self.test)):
                document = adding.fitted_on_test(document)
            document = {"about": self.about, "of": self.of, **document}
            self.write(document if before is None else adding.added(before, document))
        return found

    def write(self, document: Mapping[str, Any]) -> None:
        """Keep an evaluation."""
        write_document(self.folder / EVALUATION, EVALUATION_KIND, document)

    def _changes(self, before: Mapping[str, Any]) -> set[str]:
        """Return in what an earlier evaluation differs from this one."""
        known = {**before.get("of", {}), "test": before.get("about", {}).get("test")}
        now = json.loads(json.dumps({**self.of, "test": data_identity(self.test)}))
        return {name.partition(".")[0] for name in differences(known, now)}

    def _is_on(self, before: Mapping[str, Any]) -> bool:
        there = {*self.names} <= {*adding.sets_in(before)}
        return there and not adding.others_of_a_name(before, self.about, self.names)

    def _check(self, before: Mapping[str, Any], changed: set[str]) -> None:
        """Raise if an earlier evaluation is of something else."""
        others = adding.others_of_a_name(before, self.about, self.names)
        if "of" not in before:
            why = "is that of a comparison, to which tepui compare --resume adds"
        elif changed == {"metrics"}:
            own = ", ".join(before["metrics"])
            why = f"has metrics of yours ({own}): name them too"
        elif changed - CALIBRATED:
            named = {name.replace("test", "test data") for name in changed}
            names = ", ".join(sorted(named))
            why = f"differs in {names}; to keep it, evaluate a copy of its folder"
        elif others:
            why = f"is on other data called {', '.join(others)}"
        else:
            return
        file = self.folder / EVALUATION
        then = "pass overwrite=True (--overwrite) to replace it"
        raise FileExistsError(f"{file} exists and {why}; {then}")

    def _with_metrics(
        self, before: Mapping[str, Any], metrics: Mapping[str, Metric]
    ) -> dict[str, Any]:
        """Return an earlier evaluation with further metrics on all labeled data."""
        check_metrics(metrics, tuple(before["clean"]))
        file = self.folder / LOGITS
        classes = self.how.get("classes", "held")
        of = told_apart_by(self.ensemble, self.test, classes, self.of["rule"])
        there = file.is_file() and tensors_document(file).get("of") == of
        told = "hold the logits of this evaluation to add metrics (or pass --overwrite)"
        require(there, str(file), told, [*metrics])
        document = rescored(before, read_logits(self.folder), metrics)
        return {**document, "of": {**before["of"], "metrics": document["metrics"]}}
