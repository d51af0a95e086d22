"""Scores of how unfamiliar a sample's features are, fitted on training data.

Features are the inputs of a member's last linear layer, ``(samples, features)``. All
scores are high where a sample is unfamiliar. They are fitted in float64.

- :class:`Mahalanobis`: the distance from the nearest class mean, in units of the spread
  that the classes share.
- :class:`NearestNeighbor`: the distance from the ``k``-th nearest training sample.

References:
    Lee et al. 2018, "A simple unified framework for detecting out-of-distribution
    samples and adversarial attacks"; Sun et al. 2022, "Out-of-distribution detection
    with deep nearest neighbors"; Ledoit and Wolf 2004, "A well-conditioned estimator
    for large-dimensional covariance matrices".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self, final

import torch
import torch.nn.functional as F
from torch import Tensor

from tepui.core.checks import class_indices, require
from tepui.metrics import chunks
from tepui.metrics.chunks import wide
from tepui.metrics.streaming import check_numbers

FeatureScore = Literal["mahalanobis", "nearest_neighbor"]
"""A score of how unfamiliar a sample's features are."""


@final
@dataclass(frozen=True, eq=False)
class Mahalanobis:
    """Squared distance from the nearest class mean, ``min_c (x-μ_c)ᵀ Σ⁻¹ (x-μ_c)``.

    ``Σ`` is the covariance around the class means, one for all classes. With ``d``
    features it is shrunk, ``(1 - a) S + a (tr S / d) I``, by the share ``a`` that
    Ledoit and Wolf give, so that it can be inverted where samples are few or features
    repeat each other.

    Attributes:
        center: The mean of all features, ``(features,)``.
        whitening: What makes ``Σ`` the identity, ``(features, features)``.
        means: Whitened means of the classes, ``(classes, features)``.
        shrinkage: The share ``a``.
    """

    center: Tensor
    whitening: Tensor
    means: Tensor
    shrinkage: float

    @classmethod
    def fit(cls, features: Tensor, labels: Tensor) -> Self:
        """Learn means and spread of training features.

        Args:
            features: Shape ``(samples, features)``.
            labels: Class indices of shape ``(samples,)``; classes without a sample are
                left out.

        Returns:
            What scores other features.

        Example:
            >>> features = torch.tensor([[0.0, 1], [0, -1], [4, 1], [4, -1]])
            >>> fitted = Mahalanobis.fit(features, torch.tensor([0, 0, 1, 1]))
            >>> near, far = fitted.score(torch.tensor([[0.0, 0.5], [2.0, 0.5]]))
            >>> bool(far > near)
            True
        """
        _check(features, labels)
        values = wide(features.detach())
        center = values.mean(0)
        present, index = labels.unique(return_inverse=True)
        sums = torch.zeros(len(present), values.shape[1]).to(values)
        sums.index_add_(0, index, values - center)
        means = sums / torch.bincount(index).unsqueeze(1)
        residuals = values - center - means[index]
        covariance = residuals.T @ residuals / len(values)
        share = _ledoit_wolf(residuals, covariance)
        level = covariance.diagonal().mean()
        shrunk = (1 - share) * covariance
        shrunk.diagonal().add_(share * level)
        scales, axes = torch.linalg.eigh(shrunk)
        # What is smaller is rounding, of features that are all alike.
        least = torch.finfo(scales.dtype).eps * values.square().mean().clamp(min=1e-30)
        whitening = axes / scales.clamp(min=least).sqrt()
        return cls(center, whitening, means @ whitening, share)

    def score(self, features: Tensor) -> Tensor:
        """Return the distances.

        Args:
            features: Shape ``(samples, features)``.

        Returns:
            Scores of shape ``(samples,)``.
        """

        def nearest(part: Tensor) -> Tensor:
            white = (wide(part) - self.center) @ self.whitening
            return torch.cdist(white, self.means).amin(1).square()

        return _by_parts(nearest, features, len(self.means) + len(self.center))


@final
@dataclass(frozen=True, eq=False)
class NearestNeighbor:
    """Distance from the ``k``-th nearest training feature, all of length one.

    Attributes:
        bank: The training features, ``(samples, features)``.
        k: Which neighbor.
    """

    bank: Tensor
    k: int

    @classmethod
    def fit(cls, features: Tensor, k: int = 50) -> Self:
        """Keep training features.

        Args:
            features: Shape ``(samples, features)``.
            k: Which neighbor; the farthest where there are fewer samples.

        Returns:
            What scores other features.

        Example:
            >>> fitted = NearestNeighbor.fit(torch.tensor([[2.0, 0], [0, 3.0]]), k=1)
            >>> fitted.score(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
            tensor([0.0000, 1.4142])
        """
        require(k >= 1, "k", "be at least 1", k)
        _check(features)
        values = features.detach().to(chunks.dtype_of(features))
        return cls(F.normalize(values, dim=-1), min(k, len(features)))

    def score(self, features: Tensor) -> Tensor:
        """Return the distances.

        Args:
            features: Shape ``(samples, features)``.

        Returns:
            Scores of shape ``(samples,)``.
        """
        return _by_parts(self._score, features, len(self.bank))

    def _score(self, features: Tensor) -> Tensor:
        unit = F.normalize(features.to(self.bank), dim=-1)
        nearest = (unit @ self.bank.T).topk(self.k, dim=1)
        chosen = self.bank[nearest.indices[:, -1]]
        # From the difference: of two close neighbors a product would lose the digits.
        distances: Tensor = (unit - chosen).norm(dim=1)
        return distances


def _ledoit_wolf(residuals: Tensor, covariance: Tensor) -> float:
    """Return the share of the identity that Ledoit and Wolf give."""
    samples, size = residuals.shape
    squares = covariance.square().sum()
    noise = residuals.square().sum(1).square().sum() / samples - squares
    noise = noise / (samples * size)
    level = covariance.diagonal().mean()
    gap = (squares - size * level.square()) / size
    if gap <= 0:
        return 1.0
    return float((noise / gap).clamp(0, 1))


def _by_parts(
    function: Callable[[Tensor], Tensor], features: Tensor, width: int
) -> Tensor:
    """Return scores of features, computed in parts that need bounded memory."""
    _check(features)
    at_once = max(1, chunks.LOGITS_AT_ONCE // max(1, width))
    parts = [function(part) for part in features.detach().split(at_once)]
    return torch.cat(parts).to(chunks.dtype_of(features))


def _check(features: Tensor, labels: Tensor | None = None) -> None:
    shape = tuple(features.shape)
    require(features.ndim == 2, "features", "have shape (samples, features)", shape)
    check_numbers("features", features)
    if labels is not None:
        rule = f"have shape ({shape[0]},)"
        require(labels.shape == shape[:1], "labels", rule, tuple(labels.shape))
        class_indices(labels, int(labels.max()) + 1)
