"""Whether an ensemble does better than to name the most frequent class each time."""

from collections.abc import Mapping
from typing import Any, NamedTuple

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


class Guess(NamedTuple):
    """An ensemble beside one that names the most frequent class each time.

    The number of right answers of such a guess is binomial.

    Attributes:
        accuracy: The ensemble's.
        share: That of the most frequent class.
        samples: How many there are.

    Example:
        >>> Guess(0.12, 0.1, 200).ties, Guess(0.12, 0.1, 2000).ties
        (True, False)
        >>> Guess(0.4, 0.5, 20).wins, Guess(0.4, 0.5, 200).wins
        (False, True)
    """

    accuracy: float
    share: float
    samples: int

    @property
    def ties(self) -> bool:
        """Whether it could well be right as often."""
        from scipy.stats import binom

        right = round(self.accuracy * self.samples)
        return bool(binom.sf(right - 1, self.samples, self.share) > CHANCE)

    @property
    def wins(self) -> bool:
        """Whether it would clearly be right more often."""
        from scipy.stats import binom

        right = round(self.accuracy * self.samples)
        return bool(binom.cdf(right, self.samples, self.share) <= CHANCE)


def guess_on(evaluation: Mapping[str, Any], shift: str | None = None) -> Guess | None:
    """Return a guess on clean data, or on a natural shift, of an evaluation for JSON.

    There is none of tasks other than a choice between classes of samples.

    Example:
        >>> cell = {"type": "ward B", "severity": 0, "accuracy": 0.2}
        >>> found = {"majority": 0.5, "cells": [cell]}
        >>> found["by_class_shifted"] = {"ward B": {"samples": [30, 70]}}
        >>> guess_on(found, "ward B")
        Guess(accuracy=0.2, share=0.7, samples=100)
    """
    if evaluation.get("majority") is None:
        return None
    if shift is None:
        accuracy, share = evaluation["clean"]["accuracy"], evaluation["majority"]
        return Guess(accuracy, share, evaluation["samples"])
    rows = evaluation.get(SHIFTED, {}).get(shift)
    if rows is None:
        return None
    cells = {(c["type"], c["severity"]): c["accuracy"] for c in evaluation["cells"]}
    count = sum(rows["samples"])
    return Guess(cells[shift, NATURAL], max(rows["samples"]) / count, count)
