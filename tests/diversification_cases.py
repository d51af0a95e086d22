"""The losses of diversification from their definitions, with loops and all."""

import itertools
import math

import torch

from tepui.methods.a2d import EPSILON


def a2d_naive(p: list[float], q: list[float]) -> float:
    """The kernel from its definition, probabilities kept inside the bounds."""
    y = max(range(len(p)), key=lambda c: p[c])
    kept = [min(max(value, EPSILON), 1 - EPSILON) for value in (p[y], q[y])]
    return -math.log(kept[0] * (1 - kept[1]) + (1 - kept[0]) * kept[1])


def information_naive(probs, weights=None):
    """Mutual information of all pairs in the form of the paper, batch and all."""
    samples = probs.shape[1]
    shares = torch.full((samples,), 1 / samples, dtype=probs.dtype)
    if weights is not None:
        shares = weights / weights.sum()
    joint = torch.einsum("s,hsd,gse->hgde", shares, probs, probs)
    mean = torch.einsum("s,hsd->hd", shares, probs)
    product = torch.einsum("hd,ge->hgde", mean, mean)
    terms = joint * (joint.clamp(min=1e-12).log() - product.clamp(min=1e-12).log())
    matrix = terms.sum((2, 3))
    return torch.stack(
        [matrix[pair] for pair in itertools.combinations(range(len(probs)), 2)]
    )
