"""A comparison as the page reads it: its records' settings and the runs beside them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tepui.core.checks import require
from tepui.core.storage import read_document
from tepui.data.shifts import NATURAL
from tepui.evaluation.cost import COST, COST_KIND
from tepui.evaluation.evaluations import CLEAN, file_of, read_evaluation
from tepui.studies.results import FILE, Results, read_results
from tepui.studies.statistics import Estimate, estimate
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
        _evaluation(folder),
        outcome.summary,
        _sharpness(folder / SHARPNESS),
        read_document(cost, COST_KIND) if cost.is_file() else None,
    )


def _evaluation(folder: Path) -> dict[str, Any]:
    document = read_evaluation(folder)
    needed = {"rule", "members", "samples", "clean", "shifted", "cells", "reliability"}
    missing = needed - document.keys()
    rule = "be an evaluation by tepui with all of its fields"
    place = str(file_of(folder, CLEAN))
    require(not missing, place, rule, f"one without {sorted(missing)}")
    return document


def _sharpness(file: Path) -> dict[str, Any] | None:
    if not file.is_file():
        return None
    document = read_document(file, SHARPNESS_KIND)
    try:
        return {"about": document["about"], **document["found"]["worst_case"]}
    except (KeyError, TypeError) as error:
        raise ValueError(f"{file} must hold a measurement, but: {error!r}") from error


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

    def score(self, data: str, name: str) -> Estimate:
        """Return a score over all ensembles.

        Args:
            data: ``"clean"``, ``"shifted"`` for all corrupted copies, or the name of a
                natural shift.
            name: A score of :class:`tepui.Scores`, or a metric given to
                :func:`compare`.

        Returns:
            Mean and standard error.
        """
        rows = [scores_on(data, trained.evaluation) for trained in self.ensembles]
        return estimate(row.get(name) for row in rows)

    @property
    def sharpness(self) -> Estimate:
        """Mean sharpness of the members, over all ensembles."""
        return estimate(
            None if trained.sharpness is None else trained.sharpness["mean"]
            for trained in self.ensembles
        )


def differing(methods: Sequence[MethodResult]) -> dict[str, dict[str, Any]]:
    """Return the hyperparameters that several methods have, but not with one value.

    Args:
        methods: The methods.

    Returns:
        For each such name, its value by the methods' labels.

    Example:
        >>> one = MethodResult("SAM", {"class": "SAM", "rho": 0.1}, ())
        >>> other = MethodResult("GSAM", {"class": "GSAM", "rho": 0.2, "alpha": 1}, ())
        >>> differing([one, other])
        {'rho': {'SAM': 0.1, 'GSAM': 0.2}}
    """
    names = dict.fromkeys(name for m in methods for name in m.hyperparameters)
    values = {
        name: {
            m.label: m.hyperparameters[name]
            for m in methods
            if isinstance(m.hyperparameters.get(name), int | float | str)
        }
        for name in names
        if name != "class"
    }
    return {name: found for name, found in values.items() if len({*found.values()}) > 1}


def shared(several: Iterable[Iterable[str]]) -> tuple[str, ...]:
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
    """

    title: str
    settings: Mapping[str, Any]
    environment: Mapping[str, Any]
    methods: tuple[MethodResult, ...]

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
    return Comparison(found.title, settings, found.environment, tuple(results))


def read_comparison(path: str | Path) -> Comparison:
    """Read a comparison from its folder.

    Raises:
        FileNotFoundError: If no comparison ended there.
        ValueError: If it was written in another format.
    """
    folder = Path(path)
    if not (folder / FILE).is_file():
        raise FileNotFoundError(
            f"{path} holds no finished comparison (no {FILE}); "
            "finish one with: tepui compare --out PATH --resume"
        )
    return comparison_of(read_results(folder), folder)
