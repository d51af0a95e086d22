"""How well an ensemble tells unfamiliar samples from those of the test set.

Unfamiliar samples are the positive class everywhere: AUROC is how often one of them has
the higher score, AUPR is AUPR-Out, and FPR95 the share of test samples that raise a
false alarm where 95 % of the unfamiliar ones are found.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui import metrics
from tepui.core.checks import require
from tepui.data.arrays import Arrays
from tepui.data.loading import at_rows, length
from tepui.data.stored import StoredData, whole

MISTAKES = "mistakes"  # what tables call those on the test data


class Detection(NamedTuple):
    """How well one score finds unfamiliar samples, or mistakes, which are positive.

    Attributes:
        samples: How many of them there are; chance AUPR is their share.
        auroc: See :func:`tepui.metrics.auroc`; higher is better.
        aupr: See :func:`tepui.metrics.aupr`; higher is better.
        fpr95: See :func:`tepui.metrics.fpr95`; lower is better.
    """

    samples: int
    auroc: float
    aupr: float
    fpr95: float


class Selective(NamedTuple):
    """What is left of the error where samples of a high score are not answered.

    Attributes:
        aurc: Mean error over all shares of samples answered; lower is better.
        error_at_90: Error among the 90 % of samples that have the lowest scores.
        error_at_80: The same of 80 %.
    """

    aurc: float
    error_at_90: float
    error_at_80: float


# By which score samples are the surest.
SUREST = "max_mean_probability"


def detections(
    in_scores: Mapping[str, Tensor], ood_scores: Mapping[str, Tensor]
) -> dict[str, Detection]:
    """Return how well each score finds unfamiliar samples.

    Example:
        >>> by_score = detections(
        ...     {"pds": torch.tensor([0.1, 0.2])}, {"pds": torch.tensor([0.2, 0.3])}
        ... )
        >>> by_score["pds"].auroc, by_score["pds"].fpr95
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


def found_mistakes(scores: Mapping[str, Tensor], wrong: Tensor) -> dict[str, Detection]:
    """Return how well each score finds the samples that were answered wrongly.

    Nothing where all answers are right, or all are wrong.

    Example:
        >>> scores = {"entropy": torch.tensor([0.1, 0.9, 0.2])}
        >>> found_mistakes(scores, torch.tensor([False, True, False]))["entropy"].auroc
        1.0
    """
    if bool(wrong.all()) or not bool(wrong.any()):
        return {}
    right = {name: values[~wrong] for name, values in scores.items()}
    return detections(right, {name: values[wrong] for name, values in scores.items()})


def selective(scores: Mapping[str, Tensor], wrong: Tensor) -> dict[str, Selective]:
    """Return what error is left where the samples of the highest scores are left out.

    Example:
        >>> scores = {"entropy": torch.arange(10.0)}
        >>> left = selective(scores, torch.arange(10) == 9)["entropy"]
        >>> left.error_at_90, round(left.aurc, 3)
        (0.0, 0.01)
    """
    found = {}
    for name, values in scores.items():
        risk = metrics.SelectiveCurve().value(-values, ~wrong).risk

        def at(share: float, risk: Tensor = risk) -> float:
            return float(risk[max(1, round(share * len(risk))) - 1])

        left = {"error_at_90": at(0.9), "error_at_80": at(0.8)}
        found[name] = Selective(aurc=float(risk.mean()), **left)
    return found


def check_ood(ood: Mapping[str, Dataset[Any]], dataset: Dataset[Any]) -> None:
    """Check that unfamiliar data have the form of the test data."""
    rule = "map names to data sets"
    for name, data in ood.items():
        require(isinstance(name, str) and name != "", "ood", rule, name)
        free = "name no data as tables call the mistakes on test data"
        require(name != MISTAKES, "ood", free, name)
        argument = f"ood[{name!r}]"
        length(data, argument)
        kinds = "inputs of shape", "normalization"
        for what, expected, actual in zip(
            kinds, _form(dataset), _form(data), strict=True
        ):
            if actual is not None and expected is not None and actual != expected:
                raise ValueError(
                    f"{argument} must have {what} {expected} like the test data, got "
                    f"{actual}; bring images to that form with "
                    "tepui.data.prepared_like(images, like=test_data), or make noise "
                    "with like=test_data"
                )


def _form(dataset: Dataset[Any]) -> tuple[object, object]:
    """Return shape and normalization of a data set's inputs, None where not known."""
    one = at_rows(dataset, [torch.tensor([0])], device=torch.device("cpu"))
    inputs = next(one).inputs
    if not isinstance(inputs, Tensor):
        return sorted(inputs), None
    source = whole(dataset)
    if not isinstance(source, Arrays | StoredData) or inputs.ndim != 4:
        return tuple(inputs.shape[1:]), None
    return tuple(inputs.shape[1:]), source.normalize or "none"
