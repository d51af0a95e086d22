"""How well an ensemble tells unfamiliar samples from those of the test set.

Unfamiliar samples are the positive class everywhere: AUROC is how often one of them has
the higher score, AUPR is AUPR-Out, and FPR95 the share of test samples that raise a
false alarm where 95 % of the unfamiliar ones are found.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from tepui import metrics

BINS = 40


@dataclass(frozen=True, kw_only=True)
class Detection:
    """How well one score finds the samples of one unfamiliar set.

    Attributes:
        samples: How many unfamiliar samples there are; chance AUPR is their share.
        auroc: See :func:`tepui.metrics.auroc`; higher is better.
        aupr: See :func:`tepui.metrics.aupr`, unfamiliar samples positive; higher is
            better.
        fpr95: See :func:`tepui.metrics.fpr95`, unfamiliar samples positive; lower is
            better.
    """

    samples: int
    auroc: float
    aupr: float
    fpr95: float

    def document(self) -> dict[str, float]:
        """Return the numbers as JSON holds them."""
        return asdict(self)


@dataclass(frozen=True)
class Histogram:
    """How a score is distributed, in equal bins over its possible range.

    Attributes:
        low: The lowest value the score can take.
        high: The highest.
        clean: Samples of the test set in each bin.
        ood: Samples of each unfamiliar set in each bin.
    """

    low: float
    high: float
    clean: tuple[int, ...]
    ood: Mapping[str, tuple[int, ...]]

    def document(self) -> dict[str, Any]:
        """Return the numbers as JSON holds them."""
        return {
            "low": self.low,
            "high": self.high,
            "clean": list(self.clean),
            "ood": {name: list(counts) for name, counts in self.ood.items()},
        }


def detections(
    in_scores: Mapping[str, Tensor], ood_scores: Mapping[str, Tensor]
) -> dict[str, Detection]:
    """Return how well each score finds unfamiliar samples.

    Example:
        >>> found = detections(
        ...     {"pds": torch.tensor([0.1, 0.2])}, {"pds": torch.tensor([0.2, 0.3])}
        ... )
        >>> found["pds"].auroc, found["pds"].fpr95
        (0.875, 0.5)
    """
    return {
        name: Detection(
            samples=len(ood_scores[name]),
            auroc=float(metrics.auroc(scores, ood_scores[name])),
            aupr=float(metrics.aupr(scores, ood_scores[name], positive="ood")),
            fpr95=float(metrics.fpr95(scores, ood_scores[name], positive="ood")),
        )
        for name, scores in in_scores.items()
    }


def histograms(
    in_scores: Mapping[str, Tensor],
    ood_scores: Mapping[str, Mapping[str, Tensor]],
    *,
    members: int,
    classes: int,
) -> dict[str, Histogram]:
    """Return how PDS and BMA are distributed on each set.

    Example:
        >>> scores = {"pds": torch.tensor([0.5]), "bma": torch.tensor([0.0])}
        >>> found = histograms(scores, {"far": scores}, members=2, classes=2)
        >>> found["pds"].low, found["pds"].high, sum(found["bma"].ood["far"])
        (0.5, 1.0, 1)
    """
    ranges = {
        "pds": (1 / classes, max(2, min(members, classes)) / classes),
        "bma": (0.0, max(1, classes - 1) / classes),
    }
    return {
        name: Histogram(
            low,
            high,
            _counts(in_scores[name], low, high),
            {
                key: _counts(scores[name], low, high)
                for key, scores in ood_scores.items()
            },
        )
        for name, (low, high) in ranges.items()
    }


def _counts(scores: Tensor, low: float, high: float) -> tuple[int, ...]:
    place = ((scores.detach().cpu().double() - low) / (high - low) * BINS).long()
    counts = torch.bincount(place.clamp(0, BINS - 1), minlength=BINS)
    return tuple(counts.tolist())
