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
from tepui.evaluation.applied import AppliedScores
from tepui.evaluation.by_class import CLASSES, RATES, SETS, ByClass, by_recall
from tepui.evaluation.evaluations import CLEAN, CORRUPTED, FITTED_ON_TEST, joined
from tepui.evaluation.ood import MISTAKES, SUREST, Detection, Selective
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
            label, and what conformal sets give for it; None for numbers.
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
    precision: Precision = "float32"
    mistakes: Mapping[str, Detection] = field(default_factory=dict)
    selective: Mapping[str, Selective] = field(default_factory=dict)
    applied: AppliedScores | None = None
    applied_shifted: Mapping[Cell, AppliedScores] = field(default_factory=dict)
    majority: float | None = None
    by_class: ByClass | None = None
    fitted_on_test: bool = False
    seen: tuple[str, ...] = ()

    def __str__(self) -> str:
        return summary(self)

    @property
    def corrupted_mean(self) -> Any:
        """Scores over all types and severities; None without corrupted copies."""
        copies = [s for (_, hard), s in self.shifted.items() if hard != NATURAL]
        return mean_scores(copies) if copies else None

    @property
    def natural(self) -> dict[str, Any]:
        """Scores on each natural shift, by name."""
        return natural(self.shifted)

    def by_severity(self) -> dict[int, Any]:
        """Return scores over all types, for each severity."""
        return by_severity(self.shifted)

    def document(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return joined(self.documents().values())

    def documents(self) -> dict[str, dict[str, Any]]:
        """Return the scores on each data set for JSON, the clean ones first."""
        parts = {CLEAN: self._clean_document()}
        applied = _documents(by_severity(self.applied_shifted))
        if (mean := self.corrupted_mean) is not None:
            cells = {cell: s for cell, s in self.shifted.items() if cell[1] != NATURAL}
            parts[CORRUPTED] = {
                "shifted": mean.document(),
                "severities": _documents(self.by_severity()),
                "cells": [self._cell(*each) for each in cells.items()],
                "reliability": self._bins("shifted"),
            } | ({"applied": {"severities": applied}} if self.applied else {})
        applied = _documents(natural(self.applied_shifted))
        for name, scores in self.natural.items():
            parts[name] = {"cells": [self._cell((name, NATURAL), scores)]}
            if name in applied:
                parts[name]["applied"] = {"natural": {name: applied[name]}}
        for name, by_score in self.ood.items():
            parts[name] = {"ood": {name: _rows(by_score)}}
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
        }
        if self.majority is not None:
            document["majority"] = self.majority
        rows = self.by_class
        if rows is not None:
            document[CLASSES] = rows.document(("names", "samples", *RATES))
        if self.applied is not None:
            applied: dict[str, Any] = {"severities": {}}
            applied["clean"] = self.applied.document()
            if rows is not None and rows.coverage:
                applied[CLASSES] = rows.document(SETS)
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


def natural(cells: Mapping[Cell, Any]) -> dict[str, Any]:
    """Return the scores on each natural shift, by name."""
    return {kind: scores for (kind, hard), scores in cells.items() if hard == NATURAL}


def by_severity(cells: Mapping[Cell, Any]) -> dict[int, Any]:
    """Return mean scores over all types of corruption, for each severity."""
    levels = sorted({severity for _, severity in cells} - {NATURAL})
    by_level = {n: [s for (_, hard), s in cells.items() if hard == n] for n in levels}
    return {level: mean_scores(scores) for level, scores in by_level.items()}


def _documents(scores: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): each.document() for name, each in scores.items()}


def _rows(scores: Mapping[str, Detection | Selective]) -> dict[str, Any]:
    return {name: each._asdict() for name, each in scores.items()}


def of_fitted_samples(names: str) -> str:
    """Return what scores on the samples of a calibration are worth, in words."""
    return (
        f"{names} was calibrated on these very test samples: calibrated scores and "
        "coverage say nothing of new ones. Calibrate on held-out data (tepui train "
        "--validation), and evaluate again."
    )


def summary(evaluation: Evaluation) -> str:
    """Return what a person wants to know first, in a few lines of text."""
    corrupted, task = evaluation.corrupted_mean, evaluation.task
    columns = {"clean": evaluation.clean, **evaluation.natural}
    if corrupted is not None:
        columns = {"clean": evaluation.clean, "corrupted": corrupted, **columns}
    counts = {"sample": evaluation.samples, "member": evaluation.members}
    sizes = ", ".join(counted(number, one) for one, number in counts.items())
    values = {name: scores.values() for name, scores in columns.items()}
    lines = [f"{sizes} ({task})", *_table("", values)]
    for name, numbers in evaluation.clean.lists().items():
        lines.append(_line(name, " ".join(f"{value:.4g}" for value in numbers)))
    if (rows := evaluation.by_class) is not None and any(rows.samples):
        one, at = task.nouns(evaluation.clean.values()).one, by_recall(rows.recall)[0]
        lowest = f"{rows.recall[at]:.4g} of {rows.names[at]} ({rows.samples[at]})"
        said = f"mean {rows.mean_recall:.4g}, lowest {lowest}"
        lines.append(_line(f"recall by {one}", said))
    if evaluation.majority is not None:
        lines.append(_line("most frequent class", f"{evaluation.majority:.4g}"))
    kinds = {kind for kind, severity in evaluation.shifted if severity != NATURAL}
    if seen := [kind.replace("_", " ") for kind in evaluation.seen if kind in kinds]:
        lines.append(f"  {SEEN_IN_TRAINING}: {', '.join(seen)}")
    if (applied := evaluation.applied) is not None:
        levels = by_severity(evaluation.applied_shifted).items()
        columns = {"clean": applied, **{f"severity {n}": each for n, each in levels}}
        columns |= natural(evaluation.applied_shifted)
        values = {name: scores.values() for name, scores in columns.items()}
        parts = {"nll": "calibrated", "promised": task.promise}
        known = [
            part for n, part in parts.items() if not math.isnan(values["clean"][n])
        ]
        lines += _table(", ".join(known), values)
    if evaluation.fitted_on_test:
        lines.append(f"  {of_fitted_samples('The ensemble')}")
    sets = {MISTAKES: evaluation.mistakes, **evaluation.ood}
    found = {
        name: {score: each.auroc for score, each in by_score.items()}
        for name, by_score in sets.items()
        if by_score
    }
    lines += _table("found by (AUROC)", found) if found else []
    if (left := evaluation.selective.get(SUREST)) is not None:
        errors = f"{left.error_at_90:.4g} of 90 %, {left.error_at_80:.4g} of 80 %"
        lines.append(_line("error of the surest", errors))
    return "\n".join(lines)


def _line(name: str, said: str) -> str:
    return f"  {name.replace('_', ' '):<24}  {said}"


def _table(title: str, columns: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a heading, and a line for each score that the first column has."""
    lines = [f"  {title:<24}" + "".join(f"{name:>12}" for name in columns)]
    first = next(iter(columns.values()))
    for name in (name for name, value in first.items() if not math.isnan(value)):
        cells = "".join(f"{each[name]:>12.4g}" for each in columns.values())
        lines.append(f"  {name.replace('_', ' '):<24}{cells}")
    return lines


def pooled(several: Iterable[Reliability | None]) -> Reliability | None:
    """Return the bins of all samples of several data sets together, if any."""
    known = [bins for bins in several if bins is not None]
    if not known:
        return None
    count, confidence, accuracy = map(torch.stack, zip(*known, strict=True))
    total = count.sum(0)
    means = ((part * count).nansum(0) / total for part in (confidence, accuracy))
    return Reliability(total, *means)
