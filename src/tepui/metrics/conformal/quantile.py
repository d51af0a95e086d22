"""The score that only so many of new samples exceed."""

import math

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.warning import warn


def conformal_quantile(scores: Tensor, coverage: float) -> Tensor:
    """The ``⌈(n + 1) coverage⌉``-th smallest of ``n`` scores, along the first axis.

    Infinity, with a warning, where that is more than ``n``: so few samples can promise
    so much of everything only.

    Args:
        scores: Scores of shape ``(samples, …)``.
        coverage: The share of new samples to hold, in (0, 1).

    Returns:
        The limit, of shape ``(…)``.

    Example:
        >>> conformal_quantile(torch.arange(1.0, 10.0), 0.9)
        tensor(9.)
        >>> conformal_quantile(torch.arange(1.0, 10.0), 0.5)
        tensor(5.)
    """
    check_coverage(coverage)
    shape = tuple(scores.shape)
    require(scores.ndim > 0, "scores", "have shape (samples, …)", shape)
    require(scores.is_floating_point(), "scores", "be floating point", scores.dtype)
    samples = len(scores)
    require(samples > 0, "scores", "hold at least one sample", samples)
    require(not scores.isnan().any(), "scores", "not be NaN", math.nan)
    # The product of whole numbers and decimals may be off in its last digit.
    place = math.ceil((samples + 1) * coverage - 1e-9)
    if place > samples:
        needed = math.ceil(coverage / (1 - coverage) - 1e-9)
        warn(
            f"{samples} samples cannot promise a coverage of {coverage}: sets and "
            f"intervals hold everything; at least {needed} samples are needed",
        )
        return torch.full_like(scores[0], math.inf)
    return scores.detach().kthvalue(place, dim=0).values


def check_coverage(coverage: float) -> None:
    """Check that a coverage lies between 0 and 1."""
    require(0 < coverage < 1, "coverage", "lie in (0, 1)", coverage)
