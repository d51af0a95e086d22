"""Evaluations in the folders of runs: what they are of, and how they add up."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from tepui.cli.folders import folder_for
from tepui.cli.further import OfEvaluate
from tepui.core.agreement import differences
from tepui.core.checks import require
from tepui.core.storage import tensors_document, write_document
from tepui.data.identity import data_identity, fingerprint, same_data
from tepui.data.preparation import preparation_of
from tepui.data.shifts import NATURAL, Shifts
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.feature_detectors import FeatureDetectors
from tepui.evaluation import adding
from tepui.evaluation.cost import prediction_cost
from tepui.evaluation.custom_metrics import Metric, check_metrics, rescored
from tepui.evaluation.ensemble_digest import calibration_digest
from tepui.evaluation.evaluate import evaluate
from tepui.evaluation.logit_identity import told_apart_by
from tepui.evaluation.results import Evaluation
from tepui.evaluation.stored_logits import LOGITS, read_logits
from tepui.modules.state import weights_digest
from tepui.report.applied import of_fitted_samples
from tepui.studies.gallery import FILE, write_gallery
from tepui.studies.given import tested_on
from tepui.studies.trained import COST, COST_KIND, EVALUATION, EVALUATION_KIND
from tepui.training import Exchange, LocalExchange
from tepui.training.run_folder import RunFolder

# What tepui calibrate changes of what an evaluation is of.
CALIBRATED = {"calibration", "detectors"}


def folder_of(run: Sequence[Path], trained: bool, out: Path | None) -> Path:
    """Return where an evaluation goes: to its run's own folder, or to one of no run."""
    if trained:
        own = "be left out for a run, which is evaluated in its own folder"
        require(out is None, "--out", own, out)
        return run[0]
    folder = folder_for("evaluate", out, resume=False)
    replaced = "be another folder than a run's, whose weights would be lost"
    require(not RunFolder(folder).started, "--out", replaced, str(folder))
    return folder


def digests(ensemble: Ensemble) -> dict[str, Any]:
    """Return what tells weights apart, and beside them what is done to outputs."""
    calibrated = calibration_digest(ensemble)
    known = {} if calibrated is None else {"calibration": calibrated}
    return {"ensemble": weights_digest(ensemble), **known}


def values_in_words(
    document: Mapping[str, Any], metrics: Iterable[str]
) -> Iterator[str]:
    """Yield the values of some metrics on all labeled data of an evaluation."""
    data = {"clean": document["clean"], "corrupted": document["shifted"]}
    cells = document["cells"]
    data |= {cell["type"]: cell for cell in cells if cell["severity"] == NATURAL}
    for name in metrics:
        values = [f"{of} {scores[name]}" for of, scores in data.items() if scores]
        yield f"{name}: {', '.join(values)}"


@dataclass(frozen=True)
class Examination:
    """An evaluation that is asked for, of an ensemble on some data.

    Attributes:
        folder: Where it is kept.
        ensemble: What is evaluated.
        test: The clean data.
        shifts: The shifted data.
        sets: Unfamiliar data by name.
        of: What the evaluation is of, beside its data.
    """

    folder: Path
    ensemble: Ensemble
    test: Dataset[Any]
    shifts: Shifts
    sets: Mapping[str, Dataset[Any]]
    of: Mapping[str, Any]

    @property
    def about(self) -> dict[str, Any]:
        """What the data are."""
        return tested_on(self.test, self.shifts, self.sets)

    @property
    def names(self) -> list[str]:
        """The names of the data sets beside the clean one."""
        copies = [adding.COPIES] if self.shifts.copies else []
        return [*copies, *self.shifts.natural, *self.sets]

    def changes(self, before: Mapping[str, Any] | None) -> set[str]:
        """Return in what an earlier evaluation differs from this one."""
        if before is None:
            return set()
        known = {**before.get("of", {}), "test": before.get("about", {}).get("test")}
        now = json.loads(json.dumps({**self.of, "test": data_identity(self.test)}))
        return {name.partition(".")[0] for name in differences(known, now)}

    def check_free(self, before: Mapping[str, Any], changed: set[str]) -> None:
        """Raise if an earlier evaluation has what is asked for, or does not fit."""
        if changed and changed <= CALIBRATED:
            return
        there = adding.sets_in(before)
        again = [name for name in there if name in self.names]
        if "of" not in before:
            why = "is that of a comparison, to which tepui compare --resume adds"
        elif changed == {"metrics"}:
            own = ", ".join(before["metrics"])
            why = f"has metrics of yours ({own}): name them too"
        elif changed:
            names = ", ".join(
                "test data" if n == "test" else n for n in sorted(changed)
            )
            why = f"differs in {names}; to keep it, evaluate a copy of its folder"
        elif again or not self.names:
            why = f"is on {', '.join(again or there or ['clean data'])}"
        else:
            return
        then = "replace all of it" if changed else "measure again what is asked for"
        file = self.folder / EVALUATION
        raise FileExistsError(f"{file} exists and {why}; pass --overwrite to {then}")

    def with_metrics(
        self, before: Mapping[str, Any], metrics: Mapping[str, Metric]
    ) -> dict[str, Any]:
        """Return an earlier evaluation with further metrics on all labeled data.

        Raises:
            ValueError: If the logits beside it are of something else or not there, or
                a metric has the name of a score.
        """
        check_metrics(metrics, tuple(before["clean"]))
        file, (classes, rule) = (
            self.folder / LOGITS,
            (self.of["classes"], self.of["rule"]),
        )
        of = told_apart_by(self.ensemble, self.test, classes, rule)
        there = file.is_file() and tensors_document(file).get("of") == of
        told = "hold the logits of this evaluation to add metrics (or pass --overwrite)"
        require(there, str(file), told, [*metrics])
        document = rescored(before, read_logits(self.folder), metrics)
        return {**document, "of": {**before["of"], "metrics": document["metrics"]}}

    def evaluated(
        self,
        metrics: Mapping[str, Metric],
        detectors: FeatureDetectors | None,
        further: OfEvaluate,
        exchange: Exchange,
    ) -> Evaluation:
        """Evaluate the ensemble; processes that are not alone share the batches."""
        return evaluate(
            self.ensemble,
            self.test,
            shifted=self.shifts,
            ood=self.sets,
            detectors=detectors,
            classes=self.of["classes"],
            metrics=metrics,
            rule=self.of["rule"],
            batch_size=further.batch_size,
            workers=further.workers,
            precision=self.of["precision"],
            out=self.folder,
            overwrite=True,
            logits_in=further.logits_in,
            exchange=None if isinstance(exchange, LocalExchange) else exchange,
        )

    def keep(
        self,
        found: Evaluation,
        before: Mapping[str, Any] | None,
        changed: set[str],
        logits_in: str,
    ) -> Iterator[str]:
        """Write an evaluation beside what is kept of an earlier one, and tell of it.

        A report shows samples and a prediction's cost too.
        """
        what = "classes" if found.task.chooses else "outputs"
        yield f"{found.classes} {what}, {self.folder}: {found}"
        kept = [n for n in before["ood"] if n not in self.names] if before else []
        if logits_in == "none":
            (self.folder / FILE).unlink(missing_ok=True)
        else:
            write_gallery(self.folder, self.test, self.sets, kept)
        cost = prediction_cost(self.ensemble, self.test).document()
        write_document(self.folder / COST, COST_KIND, cost)
        document = found.document()
        fitted_on = self.ensemble.calibrated_on
        if found.applied is not None and same_data(fitted_on, fingerprint(self.test)):
            document = adding.fitted_on_test(document)
            yield of_fitted_samples("the ensemble")
        document = {"about": self.about, "of": self.of, **document}
        if before is not None:
            document = adding.added(before, document)
        write_document(self.folder / EVALUATION, EVALUATION_KIND, document)
        known = preparation_of(self.test)
        if known is not None and known.units is not None:
            (unit,) = known.units.std
            yield f"numbers are standardized: 1 is {unit:.4g} of the table's own unit"
        said = f"written to {self.folder / EVALUATION}"
        if others := [n for n in adding.sets_in(document) if n not in self.names]:
            said += f", beside {', '.join(others)} from before"
            said += ", without what tepui calibrate changed" if changed else ""
        yield said
