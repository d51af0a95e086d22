"""What a page is made of: methods, what each of them gave, and records of both."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tepui.core.storage import read_document, reading
from tepui.data.shifts import NATURAL
from tepui.evaluation.cost import COST, COST_KIND
from tepui.evaluation.evaluations import read_evaluation
from tepui.studies.results import Record
from tepui.studies.store import SHARPNESS, SHARPNESS_KIND
from tepui.training.history import Outcome
from tepui.training.run_folder import RunFolder


@dataclass(frozen=True)
class Trained:
    """One trained and evaluated ensemble.

    Attributes:
        folder: Where it lies.
        seeds: Seeds of its members.
        evaluation: Its scores, ready for JSON.
        outcome: What came of its training; of nothing known, an empty one.
        sharpness: Adaptive worst-case sharpness of its members on training data, as
            JSON holds it; None where it was not measured.
        cost: What a prediction costs, as JSON holds it, see
            :class:`tepui.evaluation.PredictionCost`; None where it was not measured.
    """

    folder: str
    seeds: tuple[int, ...]
    evaluation: Mapping[str, Any]
    outcome: Outcome = Outcome()  # noqa: RUF009 - a frozen value
    sharpness: Mapping[str, Any] | None = None
    cost: Mapping[str, Any] | None = None


def read_trained(folder: Path) -> Trained:
    """Read a run that was evaluated, or an ensemble that no run trained."""
    run = RunFolder(folder)
    config = run.recorded()["config"] if run.started else {}
    cost = folder / COST
    return Trained(
        str(folder),
        tuple(config.get("seeds", ())),
        read_evaluation(folder),
        run.outcome(),
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
        label: Its name in tables; no two methods have the same.
        ensembles: One per repetition.
        training: Model, members, epochs, passes, data and training samples, where they
            are known.
        sources: The folders that it comes from; several for repetitions.
    """

    label: str
    ensembles: tuple[Trained, ...]
    training: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[Path, ...] = ()


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
    """Several methods that were tested on the same data.

    Attributes:
        methods: The methods.
        records: All numbers of the study, or those that were made of its ensembles.
    """

    methods: tuple[MethodResult, ...]
    records: tuple[Record, ...] = ()

    @property
    def title(self) -> str:
        """The test data in words."""
        first = next(self.ensembles()).evaluation
        tested = first.get("about", {}).get("test", {})
        cells, sets = first["cells"], list(first.get("ood", {}))
        natural, copies = [*natural_in(first)], len(cells) - len(natural_in(first))
        words = [f"{tested.get('class', 'unnamed test data')}"]
        words += [f"{first['samples']} test samples"]
        words += [f"{copies} corrupted copies"] if copies else []
        words += [f"natural shifts: {', '.join(natural)}"] if natural else []
        words += [f"unfamiliar: {', '.join(sets)}"] if sets else []
        return ", ".join(words)

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
        """Whether the sharpness of members was measured, and alike where it was."""
        found = [each.sharpness for each in self.ensembles() if each.sharpness]
        return bool(found) and all(
            each.get("about") == found[0].get("about") for each in found
        )

    def ensembles(self) -> Iterator[Trained]:
        """Yield all ensembles, method after method."""
        return (ensemble for method in self.methods for ensemble in method.ensembles)
