"""Whether an ensemble does better than to name the most frequent class each time."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from tepui.data.shifts import NATURAL
from tepui.evaluation.by_class import SHIFTED

# How likely so many right answers may be for a guess before they count for more.
CHANCE = 0.05


def majority_share(labels: Tensor) -> float:
    """Return the share of the most frequent class.

    Example:
        >>> majority_share(torch.tensor([0, 2, 2, 1]))
        0.5
    """
    return float(torch.bincount(labels.long()).max()) / len(labels)


def no_better_than_majority(accuracy: float, majority: float, samples: int) -> bool:
    """Return whether a guess with the majority's accuracy could well do as well.

    The number of right answers of such a guess is binomial.

    Example:
        >>> no_better_than_majority(0.12, 0.1, 200)
        True
        >>> no_better_than_majority(0.12, 0.1, 2000)
        False
    """
    from scipy.stats import binom

    right = round(accuracy * samples)
    return bool(binom.sf(right - 1, samples, majority) > CHANCE)


def worse_than_majority(accuracy: float, majority: float, samples: int) -> bool:
    """Return whether a guess with the majority's accuracy would clearly do better.

    Example:
        >>> worse_than_majority(0.4, 0.5, 20), worse_than_majority(0.4, 0.5, 200)
        (False, True)
    """
    from scipy.stats import binom

    right = round(accuracy * samples)
    return bool(binom.cdf(right, samples, majority) <= CHANCE)


def only_guesses(evaluation: Mapping[str, Any]) -> bool:
    """Return whether an evaluation in JSON's form is no better than the majority."""
    return _holds(no_better_than_majority, evaluation)


def does_worse(evaluation: Mapping[str, Any]) -> bool:
    """Return whether an evaluation in JSON's form is worse than the majority."""
    return _holds(worse_than_majority, evaluation)


def does_worse_on(shift: str, evaluation: Mapping[str, Any]) -> bool:
    """Return whether an evaluation in JSON's form is worse on a natural shift.

    Example:
        >>> cell = {"type": "ward B", "severity": 0, "accuracy": 0.2}
        >>> found = {"majority": 0.5, "cells": [cell]}
        >>> found["by_class_shifted"] = {"ward B": {"samples": [30, 70]}}
        >>> does_worse_on("ward B", found), does_worse_on("ward C", found)
        (True, False)
    """
    rows = evaluation.get(SHIFTED, {}).get(shift)
    if rows is None or evaluation.get("majority") is None:  # several labels, or pixels
        return False
    cells = {(c["type"], c["severity"]): c["accuracy"] for c in evaluation["cells"]}
    count = sum(rows["samples"])
    share = max(rows["samples"]) / count
    return worse_than_majority(cells[shift, NATURAL], share, count)


def _holds(
    judged: Callable[[float, float, int], bool], evaluation: Mapping[str, Any]
) -> bool:
    """Return what is judged of an evaluation's accuracy; not without a majority."""
    if (majority := evaluation.get("majority")) is None:
        return False
    return judged(evaluation["clean"]["accuracy"], majority, evaluation["samples"])
