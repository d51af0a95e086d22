"""Losses with closed forms: a quadratic in the weights, and its exact maxima."""

import numpy as np
import torch
from scipy.optimize import brentq
from torch import nn

from tepui.data import Arrays


class Quadratic(nn.Module):
    """Returns ``x * (θᵀHθ / 2 + gᵀθ)`` for every input ``x``."""

    def __init__(self, hessian, slope, weights):
        super().__init__()
        self.register_buffer("hessian", hessian)
        self.register_buffer("slope", slope)
        self.weights = nn.Parameter(weights)

    def forward(self, x):
        w = self.weights
        return x * (0.5 * w @ self.hessian @ w + self.slope @ w)


def own_value(outputs, targets):
    """The output is the loss."""
    return outputs[:, 0]


def random_quadratic(seed, size=6, convex=False):
    stream = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=stream, dtype=torch.float64)

    A = draw(size, size)
    hessian = A @ A.T if convex else A + A.T
    return Quadratic(hessian, draw(size), draw(size))


def inputs_of(*values):
    """One sample per value, each a multiple of the same loss."""
    x = torch.tensor(values, dtype=torch.float64)[:, None]
    return Arrays(x, torch.zeros(len(values), dtype=torch.float64))


def largest_rise(A, b, rho):
    """Maximize ``uᵀAu / 2 + bᵀu`` over ``|u| ≤ rho``, by the secular equation."""
    values, vectors = np.linalg.eigh(np.asarray(A))
    c = vectors.T @ np.asarray(b)

    def excess(shift):
        return np.linalg.norm(c / (shift - values)) - rho

    top = values[-1]
    low, high = top + 1e-12 * max(1, abs(top)), top + np.linalg.norm(c) / rho + 1.0
    if top < 0 and np.linalg.norm(c / values) <= rho:  # the maximum lies inside
        return float(0.5 * np.sum(c**2 / -values))
    assert excess(low) > 0, "the hard case: no slope along the top eigenvector"
    shift = brentq(excess, low, high, xtol=1e-14, rtol=1e-14)
    u = c / (shift - values)
    return float(0.5 * np.sum(values * u**2) + c @ u)
