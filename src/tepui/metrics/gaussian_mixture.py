"""Gaussian mixtures: members with a mean and a variance each, of equal weight."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tepui.core.checks import have_values, require
from tepui.metrics.targets import check_levels, check_variances, joint_tensors

_HALVINGS = {torch.float32: 40, torch.float64: 70}
_HALVINGS_IN_GRAPHS = 26  # enough for float32 next to the bracket's width


def gaussian_quantiles(
    means: Tensor, variances: Tensor, levels: Sequence[float]
) -> Tensor:
    """Quantiles of a mixture of Gaussians, ``(1/M) Σ_m N(μ_m, σ_m²)``.

    A quantile of the mixture lies between the least and the greatest of the members';
    that bracket is halved until it cannot be told from one number.

    Args:
        means: Means of shape ``(members, samples, …)``.
        variances: Variances of the same shape, positive.
        levels: Which quantiles, each in (0, 1).

    Returns:
        Quantiles of shape ``(samples, …, levels)``.

    Example:
        >>> means, variances = torch.tensor([[-9.0], [9.0]]), torch.ones(2, 1)
        >>> gaussian_quantiles(means, variances, [0.25, 0.75])  # the middle of each
        tensor([[-9.,  9.]])
    """
    given = check_levels(levels)
    shape, filled = tuple(means.shape), means.ndim > 1 and len(means) > 0
    require(filled, "means", "have shape (members, samples, …)", shape)
    spreads, values = joint_tensors(variances=variances, means=means)
    check_variances(spreads)
    wanted = given.to(values)
    centers, scales = values.unsqueeze(-1), spreads.sqrt().unsqueeze(-1)
    by_member: Tensor = centers + scales * _standard(levels, values)
    low, high = by_member.amin(0), by_member.amax(0)
    halvings = _HALVINGS[values.dtype] if have_values() else _HALVINGS_IN_GRAPHS
    for _ in range(halvings):
        middle = low + (high - low) / 2
        short = torch.special.ndtr((middle - centers) / scales).mean(0) < wanted
        low, high = torch.where(short, middle, low), torch.where(short, high, middle)
    return high


def _standard(levels: Sequence[float], like: Tensor) -> Tensor:
    """Return quantiles of the standard normal distribution, which are plain numbers.

    So a graph that is traced holds them as constants.
    """
    at = (torch.tensor(level, dtype=like.dtype) for level in levels)
    return like.new_tensor([torch.special.ndtri(level).item() for level in at])


def mixture_log_density(means: Tensor, variances: Tensor, targets: Tensor) -> Tensor:
    """Return the logarithm of the mixture's density at the targets."""
    squares = (targets - means).square() / variances
    logs = -0.5 * (squares + variances.log() + math.log(2 * math.pi))
    return logs.logsumexp(0) - math.log(len(means))
