"""The results of an evaluation, and their form in JSON."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from tepui.core.precision import Precision
from tepui.core.storage import finite_or_none
from tepui.core.text import ShownInNotebooks, counted
from tepui.data.shifts import NATURAL, Cell
from tepui.evaluation.applied import AppliedScores, broken_promise
from tepui.evaluation.by_class import (
    CLASSES,
    SHIFTED,
    ByClass,
    Confusion,
    by_recall,
    guess_on,
)
from tepui.evaluation.evaluations import CLEAN, CORRUPTED, FITTED_ON_TEST, joined
from tepui.evaluation.ood import MISTAKES, SUREST, Detection, Histogram, Selective
from tepui.metrics import Reliability, Rule
from tepui.tasks.base import Task
from tepui.tasks.scores import mean_scores

# What a document and a table say of corruptions that the augmentation has, too.
SEEN, SEEN_IN_TRAINING = "seen_in_training", "seen in training"


@dataclass(frozen=True)
class Evaluation(ShownInNotebooks):
    """An ensemble's scores on clean and on shifted data.

    Attributes:
        rule: How members were combined.
        members: How many they are.
        samples: Size of the clean data set.
        classes: Between how many classes members chose on it; of another task, how
            many outputs there are.
        clean: Scores on clean data: a :class:`Scores`, or what another task has.
        shifted: Scores by type and severity of the shift; a natural one has severity 0,
            see :attr:`natural`.
        reliability: Confidence and accuracy in bins, for ``clean`` and, pooled over
            all cells, for ``shifted``.
        ood: How well each score of :func:`tepui.metrics.ood_scores` tells the samples
            of each unfamiliar set from the clean ones.
        histograms: How PDS and the largest mean probability are distributed, where
            there are unfamiliar sets.
        precision: What members computed in.
        task: What outputs mean.
        mistakes: How well each score finds the clean samples that the ensemble gets
            wrong; empty where there are none, and for tasks that have no labels.
        selective: What error is left where the clean samples of the highest scores are
            not answered; empty for tasks that have no labels.
        applied: Scores of clean data after the ensemble's calibration, and coverage and
            size of its conformal sets or intervals; None if it has neither, or they
            were made for another rule or for more classes.
        applied_shifted: The same by type and severity of the shift.
        majority: Share of the most frequent class of the clean data, which a guess
            could be right for; None for tasks other than a choice between classes.
        by_class: Recall, precision and F1 of each class of the clean data, or each
            label, after the ensemble's calibration, and what conformal sets give for
            it; None for numbers.
        by_class_shifted: The same of each natural shift, by name.
        confusions: Which classes missed clean samples were called, before calibration,
            the most frequent first; empty for tasks other than a choice of classes.
        fitted_on_test: Whether the calibration was fitted on the very test data.
        seen: Types of corruption among the operations of the training's augmentation.
    """

    rule: Rule
    members: int
    samples: int
    classes: int
    task: Task
    clean: Any  # TaskScores, of the kind that the task has
    shifted: Mapping[Cell, Any]
    reliability: Mapping[str, Reliability]
    ood: Mapping[str, Mapping[str, Detection]] = field(default_factory=dict)
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    precision: Precision = "float32"
    mistakes: Mapping[str, Detection] = field(default_factory=dict)
    selective: Mapping[str, Selective] = field(default_factory=dict)
    applied: AppliedScores | None = None
    applied_shifted: Mapping[Cell, AppliedScores] = field(default_factory=dict)
    majority: float | None = None
    by_class: ByClass | None = None
    by_class_shifted: Mapping[str, ByClass] = field(default_factory=dict)
    confusions: tuple[Confusion, ...] = ()
    fitted_on_test: bool = False
    seen: tuple[str, ...] = ()

    def __str__(self) -> str:
        return summary(self)

    @property
    def corrupted_mean(self) -> Any:
        """Scores over all types and severities; None without corrupted copies."""
        copies = _copies(self.shifted)
        return mean_scores(copies) if copies else None

    @property
    def natural(self) -> dict[str, Any]:
        """Scores on each natural shift, by name."""
        return _natural(self.shifted)

    def by_severity(self) -> dict[int, Any]:
        """Return scores over all types, for each severity."""
        return _by_severity(self.shifted)

    @property
    def applied_corrupted_mean(self) -> AppliedScores | None:
        """What calibration and sets give over corrupted copies; None without them."""
        copies = _copies(self.applied_shifted)
        return mean_scores(copies) if copies else None

    @property
    def applied_natural(self) -> dict[str, AppliedScores]:
        """What calibration and sets give on each natural shift, by name."""
        return _natural(self.applied_shifted)

    def applied_by_severity(self) -> dict[int, AppliedScores]:
        """Return what calibration and sets give over all types, for each severity."""
        return _by_severity(self.applied_shifted)

    def document(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return joined(self.documents().values())

    def documents(self) -> dict[str, dict[str, Any]]:
        """Return the scores on each data set for JSON, the clean ones first."""
        parts = {CLEAN: self._clean_document()}
        if (mean := self.corrupted_mean) is not None:
            cells = {cell: s for cell, s in self.shifted.items() if cell[1] != NATURAL}
            applied = _documents(self.applied_by_severity())
            parts[CORRUPTED] = {
                "shifted": mean.document(),
                "severities": _documents(self.by_severity()),
                "cells": [self._cell(*each) for each in cells.items()],
                "reliability": self._bins("shifted"),
            } | ({"applied": {"severities": applied}} if self.applied else {})
        for name, scores in self.natural.items():
            part: dict[str, Any] = {"cells": [self._cell((name, NATURAL), scores)]}
            rows = self.by_class_shifted.get(name)
            if rows is not None:
                part |= {SHIFTED: {name: rows.document()}}
            if self.applied is not None and name in self.applied_natural:
                own: dict[str, Any] = {
                    "natural": {name: self.applied_natural[name].document()}
                }
                if rows is not None and (sets := rows.applied_document()):
                    own |= {SHIFTED: {name: sets}}
                part |= {"applied": own}
            parts[name] = part
        for name, by_score in self.ood.items():
            parts[name] = {
                "ood": {name: _rows(by_score)},
                "histograms": {
                    k: {**each._asdict(), "ood": {name: each.ood[name]}}
                    for k, each in self.histograms.items()
                },
            }
        return parts

    def _clean_document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "task": self.task.written(),
            "rule": self.rule,
            "precision": self.precision,
            "members": self.members,
            "samples": self.samples,
            "classes": self.classes,
            "metrics": list(self.clean.custom),
            "clean": self.clean.document(),
            "shifted": None,
            "severities": {},
            "cells": [],
            "reliability": self._bins("clean"),
            "ood": {},
            "mistakes": _rows(self.mistakes),
            "selective": _rows(self.selective),
            "histograms": {},
        }
        if self.majority is not None:
            document["majority"] = self.majority
        if self.by_class is not None:
            document[CLASSES] = self.by_class.document()
        if self.confusions:
            document["confusions"] = [*map(list, self.confusions)]
        if self.applied is not None:
            applied: dict[str, Any] = {
                "clean": self.applied.document(),
                "severities": {},
            }
            if self.by_class is not None and (sets := self.by_class.applied_document()):
                applied[CLASSES] = sets
            if self.fitted_on_test:
                applied[FITTED_ON_TEST] = True
            document["applied"] = applied
        return document

    def _cell(self, cell: Cell, scores: Any) -> dict[str, Any]:
        kind, severity = cell
        seen = {SEEN: True} if kind in self.seen and severity != NATURAL else {}
        return {"type": kind, "severity": severity, **scores.document(), **seen}

    def _bins(self, name: str) -> dict[str, Any]:
        if name not in self.reliability:
            return {}
        bins = self.reliability[name]._asdict().items()
        return {name: {k: finite_or_none(v.double().tolist()) for k, v in bins}}


def _copies(cells: Mapping[Cell, Any]) -> list[Any]:
    return [scores for (_, hard), scores in cells.items() if hard != NATURAL]


def _natural(cells: Mapping[Cell, Any]) -> dict[str, Any]:
    return {kind: scores for (kind, hard), scores in cells.items() if hard == NATURAL}


def _by_severity(cells: Mapping[Cell, Any]) -> dict[int, Any]:
    levels = sorted({severity for _, severity in cells} - {NATURAL})
    by_level = {n: [s for (_, hard), s in cells.items() if hard == n] for n in levels}
    return {level: mean_scores(scores) for level, scores in by_level.items()}


def _documents(scores: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): each.document() for name, each in scores.items()}


def _rows(scores: Mapping[str, Detection | Selective]) -> dict[str, Any]:
    return {name: each._asdict() for name, each in scores.items()}


def _applied_lines(evaluation: Evaluation, said: str) -> list[str]:
    """Return scores after calibration and coverage of sets, over severities too."""
    if evaluation.applied is None:
        return []
    severities = evaluation.applied_by_severity().items()
    columns = {"clean": evaluation.applied}
    columns |= {f"severity {level}": scores for level, scores in severities}
    columns |= evaluation.applied_natural
    known = {n: v for n, v in columns["clean"].values().items() if not math.isnan(v)}
    parts = {"nll": "calibrated", "promised": evaluation.task.promise}
    title = ", ".join(part for name, part in parts.items() if name in known)
    lines = [f"  {title:<24}" + "".join(f"{name:>12}" for name in columns)]
    for name in [name for name in known if name != "samples"]:
        cells = "".join(f"{getattr(s, name):>12.4g}" for s in columns.values())
        lines.append(f"    {name.replace('_', ' '):<22}{cells}")
    return [*lines, f"  {said}"] if said else lines


def of_fitted_samples(names: str) -> str:
    """Return what scores on the samples of a calibration are worth, in words."""
    return (
        f"What tepui calibrate taught {names} was fitted on these very test samples: "
        "scores with it, and the coverage of sets or intervals, are of the samples it "
        "was fitted on and say nothing of new ones. For scores that do, calibrate on "
        "held-out data (tepui train --validation), and evaluate again."
    )


def _class_lines(evaluation: Evaluation) -> list[str]:
    """Return the mean recall of classes, and the lowest with whose it is."""
    found = evaluation.by_class
    occurring = [] if found is None else by_recall(found.recall)
    if found is None or not occurring:
        return []
    nouns = evaluation.task.nouns(evaluation.clean.values())
    at, count = occurring[0], found.samples[occurring[0]]
    said = f"{found.recall[at]:.4g}: {nouns.one} {found.names[at]}, "
    said += f"{count} {nouns.counted(count)}"
    if len(found.names) > 1:
        said = f"mean {found.mean_recall:.4g}, lowest {said}"
    after = "" if found.uncalibrated is None else " (calibrated)"
    return [f"  {f'recall by {nouns.one}':<24}  {said}{after}"]


def _guessing_lines(document: Mapping[str, Any], shifts: Iterable[str]) -> list[str]:
    """Return sentences on data on which a guess would do as well, or better."""
    said = []
    for shift in (None, *shifts):
        guess = guess_on(document, shift)
        if guess is None or not (guess.wins or (shift is None and guess.ties)):
            continue
        begins, of = "cannot be told from guessing", "clean samples"
        if guess.wins and shift is None:
            begins = "worse than guessing; data may have shifted from the training data"
        if shift is not None:
            begins, of = f"worse than guessing on {shift} data", "samples"
        said.append(
            f"  {begins}: {100 * guess.accuracy:.4g} % of {guess.samples} {of} are "
            "right, and always naming the most frequent class would get "
            f"{100 * guess.share:.4g} %"
        )
    return said


def summary(evaluation: Evaluation) -> str:
    """Return what a person wants to know first, in a few lines of text."""
    shown = {"clean": evaluation.clean, "corrupted": evaluation.corrupted_mean}
    shown |= evaluation.natural
    columns = {name: scores for name, scores in shown.items() if scores is not None}
    counts = {"sample": evaluation.samples, "member": evaluation.members}
    sizes = ", ".join(counted(number, one) for one, number in counts.items())
    headings = "".join(f"{name:>12}" for name in columns)
    lines = [f"{sizes} ({evaluation.task})", f"{'':<26}{headings}"]
    for name, value in evaluation.clean.values().items():
        if not math.isnan(value):
            cells = (f"{s.values()[name]:>12.4g}" for s in columns.values())
            lines.append(f"  {name.replace('_', ' '):<24}" + "".join(cells))
    for name, values in evaluation.clean.lists().items():
        if name.startswith("member_"):
            numbers = " ".join(f"{value:.4g}" for value in values)
            lines.append(f"  {name.replace('_', ' '):<24}  {numbers}")
    lines += _class_lines(evaluation)
    kinds = {kind for kind, severity in evaluation.shifted if severity != NATURAL}
    if seen := [kind.replace("_", " ") for kind in evaluation.seen if kind in kinds]:
        lines.append(f"  {SEEN_IN_TRAINING}: {', '.join(seen)}")
    document, promise = evaluation.document(), evaluation.task.promise
    lines += _guessing_lines(document, evaluation.natural)
    applied = document.get("applied")
    broken = broken_promise(applied, promise) if applied else ""
    lines += _applied_lines(evaluation, broken)
    if evaluation.fitted_on_test:
        lines.append(f"  {of_fitted_samples('the ensemble')}")
    found = {MISTAKES: evaluation.mistakes, **evaluation.ood}
    found = {name: by_score for name, by_score in found.items() if by_score}
    if found:
        lines.append(f"  {'found by (AUROC)':<24}" + "".join(f"{n:>12}" for n in found))
        for score in next(iter(found.values())):
            cells = (f"{by_score[score].auroc:>12.4g}" for by_score in found.values())
            lines.append(f"    {score.replace('_', ' '):<22}" + "".join(cells))
    if (left := evaluation.selective.get(SUREST)) is not None:
        errors = f"{left.error_at_90:.4g} of 90 %, {left.error_at_80:.4g} of 80 %"
        lines.append(f"  {'error of the surest':<24}  {errors}")
    return "\n".join(lines)


def pooled(several: Iterable[Reliability | None]) -> Reliability | None:
    """Return the bins of all samples of several data sets together, if any."""
    known = [bins for bins in several if bins is not None]
    if not known:
        return None
    count, confidence, accuracy = map(torch.stack, zip(*known, strict=True))
    total = count.sum(0)
    means = ((part * count).nansum(0) / total for part in (confidence, accuracy))
    return Reliability(total, *means)
