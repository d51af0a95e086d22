"""A comparison as the page reads it: its records' settings and the runs beside them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tepui.core.checks import require
from tepui.core.storage import read_document, reading
from tepui.data.shifts import NATURAL
from tepui.evaluation.cost import COST, COST_KIND
from tepui.evaluation.evaluations import read_evaluation
from tepui.studies.results import FILE, Record, Results
from tepui.studies.store import SHARPNESS, SHARPNESS_KIND
from tepui.training.run_folder import RunFolder


@dataclass(frozen=True)
class Trained:
    """One trained and evaluated ensemble.

    Attributes:
        folder: Its run folder, relative to the comparison's.
        seeds: Seeds of its members.
        seconds: How long training took, from its beginning to its end.
        evaluation: Its scores, ready for JSON.
        summary: What the method has to show of it, such as SharpBalance's sets.
        sharpness: Adaptive worst-case sharpness of its members on training data, as
            JSON holds it; None where it was not measured.
        cost: What a prediction costs, as JSON holds it, see
            :class:`tepui.evaluation.PredictionCost`; None where it was not measured.
    """

    folder: str
    seeds: tuple[int, ...]
    seconds: float
    evaluation: Mapping[str, Any]
    summary: Mapping[str, Any]
    sharpness: Mapping[str, Any] | None
    cost: Mapping[str, Any] | None = None


def read_trained(folder: Path) -> Trained:
    """Read a run that was evaluated, or an ensemble that no run trained."""
    run = RunFolder(folder)
    config = run.recorded()["config"] if run.started else {}
    cost, outcome = folder / COST, run.outcome()
    return Trained(
        str(folder),
        tuple(config.get("seeds", ())),
        sum(outcome.timeline.values()),
        read_evaluation(folder),
        outcome.summary,
        _sharpness(folder / SHARPNESS),
        read_document(cost, COST_KIND) if cost.is_file() else None,
    )


def _sharpness(file: Path) -> dict[str, Any] | None:
    if not file.is_file():
        return None
    document = read_document(file, SHARPNESS_KIND)
    with reading(file, "a measurement"):
        return {"about": document["about"], **document["found"]["worst_case"]}


@dataclass(frozen=True)
class MethodResult:
    """What one method gave.

    Attributes:
        label: Its name in tables.
        hyperparameters: Its fields.
        ensembles: One entry per repetition.
    """

    label: str
    hyperparameters: Mapping[str, Any]
    ensembles: tuple[Trained, ...]


def shared(several: Iterable[Iterable[Any]]) -> tuple[Any, ...]:
    """Return the names that all have, in the order of the first.

    Example:
        >>> shared([["a", "b", "c"], ["c", "a"]])
        ('a', 'c')
    """
    first, *others = [tuple(each) for each in several] or [()]
    return tuple(name for name in first if all(name in other for other in others))


def natural_in(evaluation: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the scores of an evaluation on natural shifts, by name."""
    cells = evaluation["cells"]
    return {cell["type"]: cell for cell in cells if cell["severity"] == NATURAL}


def scores_on(data: str, evaluation: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the scores of an evaluation on clean, corrupted or naturally shifted data.

    Example:
        >>> found = {"cells": [{"type": "sketch", "severity": 0, "nll": 1}]}
        >>> scores_on("sketch", found)["nll"]
        1
    """
    if data in ("clean", "shifted"):
        return evaluation[data] or {}
    return natural_in(evaluation).get(data, {})


@dataclass(frozen=True)
class Comparison:
    """Several methods on one data set.

    Attributes:
        title: What was compared on what.
        settings: How all methods were trained and evaluated.
        environment: Versions, hardware and the command.
        methods: One entry per method.
        records: All numbers of the study, if it wrote any.
    """

    title: str
    settings: Mapping[str, Any]
    environment: Mapping[str, Any]
    methods: tuple[MethodResult, ...]
    records: tuple[Record, ...] = ()

    @property
    def has_shift(self) -> bool:
        """Whether corrupted data were evaluated."""
        return all(
            ensemble.evaluation["shifted"] is not None for ensemble in self.ensembles()
        )

    @property
    def natural_shifts(self) -> tuple[str, ...]:
        """Names of the natural shifts on which all ensembles were evaluated."""
        return shared(natural_in(item.evaluation) for item in self.ensembles())

    @property
    def ood_sets(self) -> tuple[str, ...]:
        """Names of the unfamiliar sets on which all ensembles were evaluated."""
        return shared(item.evaluation.get("ood", {}) for item in self.ensembles())

    @property
    def score_names(self) -> frozenset[str]:
        """Names of the scores by which all ensembles were evaluated on clean data."""
        return frozenset(shared(each.evaluation["clean"] for each in self.ensembles()))

    @property
    def has_mistakes(self) -> bool:
        """Whether it was evaluated how well all ensembles' mistakes are found."""
        return all(ensemble.evaluation.get("mistakes") for ensemble in self.ensembles())

    @property
    def detecting_scores(self) -> tuple[str, ...]:
        """The scores that find mistakes or unfamiliar samples, of all ensembles."""
        found = (each.evaluation for each in self.ensembles())
        tables = [[*e.get("ood", {}).values(), e.get("mistakes", {})] for e in found]
        return shared(by_score for each in tables for by_score in each if by_score)

    @property
    def custom_metrics(self) -> tuple[str, ...]:
        """Names of the caller's own metrics by which all ensembles were evaluated."""
        first = next(self.ensembles()).evaluation.get("metrics", [])
        return tuple(name for name in first if name in self.score_names)

    @property
    def has_sharpness(self) -> bool:
        """Whether the sharpness of any members was measured."""
        return any(ensemble.sharpness is not None for ensemble in self.ensembles())

    def ensembles(self) -> Iterator[Trained]:
        """Yield all ensembles, method after method."""
        return (ensemble for method in self.methods for ensemble in method.ensembles)


def comparison_of(found: Results, folder: Path) -> Comparison:
    """Return a comparison with the runs that lie in its folder."""
    settings, root = dict(found.settings), folder.resolve()
    methods, runs = settings.pop("methods"), settings.pop("runs")
    for name in (name for names in runs.values() for name in names):
        inside = (root / name).resolve().is_relative_to(root)
        require(inside, f"folders in {folder / FILE}", "lie inside its own", name)
    measured = settings["sharpness"] is not None

    def trained(name: str) -> Trained:
        own = replace(read_trained(folder / name), folder=name)
        return own if measured else replace(own, sharpness=None)

    results = (
        MethodResult(label, methods[label], tuple(map(trained, names)))
        for label, names in runs.items()
    )
    return Comparison(
        found.title, settings, found.environment, tuple(results), found.records
    )
