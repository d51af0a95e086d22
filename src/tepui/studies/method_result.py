"""What one method of a comparison gave, and how it is read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tepui.data.shifts import NATURAL
from tepui.studies.statistics import Estimate, estimate
from tepui.studies.trained import Trained


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
