"""Intervals that hold a number with a promised probability.

Scores of numbers, one for each of them:

- ``residual``: ``|y - μ|``, intervals of one width.
- ``normalized``: ``|y - μ| / σ``, wider where the ensemble is unsure.
- ``quantile``: ``max(l - y, y - u)`` for a predicted interval ``[l, u]``, which is then
  moved outwards, or inwards, by ``q`` at both ends.
"""

from dataclasses import dataclass
from typing import Any, Literal, Self, final, get_args

import torch
from torch import Tensor

from tepui.core.checks import one_of, require
from tepui.metrics.conformal.quantile import check_coverage, conformal_quantile
from tepui.metrics.targets import joint_tensors

IntervalScoreName = Literal["residual", "normalized", "quantile"]
"""What measures how badly a number fits."""


@final
@dataclass(frozen=True, eq=False)
class ConformalIntervals:
    """Intervals that hold a number with a promised probability.

    Attributes:
        limit: The largest score of a number inside, one for each number of a sample,
            ``(…)``.
        coverage: The probability that was promised.
        score: What measures how badly a number fits.
    """

    limit: Tensor
    coverage: float
    score: IntervalScoreName = "residual"

    def __post_init__(self) -> None:
        check_coverage(self.coverage)
        one_of("score", self.score, get_args(IntervalScoreName))

    @classmethod
    def fit(
        cls,
        first: Tensor,
        second: Tensor | None,
        targets: Tensor,
        *,
        coverage: float = 0.9,
        score: IntervalScoreName = "residual",
    ) -> Self:
        """Find the limit on held-out samples.

        Args:
            first: Predicted numbers of shape ``(samples, …)``; for ``"quantile"``
                predicted lower ends.
            second: For ``"normalized"`` the predicted standard deviations, for
                ``"quantile"`` the upper ends, of the same shape; else None.
            targets: The true numbers, of the same shape.
            coverage: How often intervals shall hold the true number, in (0, 1).
            score: What measures how badly a number fits.

        Returns:
            What makes intervals of other samples' predictions.

        Example:
            >>> targets = torch.arange(1.0, 10.0)
            >>> fitted = ConformalIntervals.fit(torch.zeros(9), None, targets)
            >>> fitted.interval(torch.tensor([100.0]))
            (tensor([91.]), tensor([109.]))
        """
        check_coverage(coverage)
        one_of("score", score, get_args(IntervalScoreName))
        _check_second(score, second)
        scores = _misfits(first, second, targets, score)
        return cls(conformal_quantile(scores, coverage), coverage, score)

    def interval(
        self, first: Tensor, second: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the ends of the intervals.

        Args:
            first: What :meth:`fit` took as its first argument, of other samples.
            second: What it took as its second.

        Returns:
            Lower and upper ends, each of the shape of ``first``.
        """
        _check_second(self.score, second)
        reach = self.limit.to(first)
        if self.score == "quantile":
            assert second is not None
            # Quantiles that overlap once moved inwards meet in the middle.
            low, high = first - reach, second + reach
            middle = (low + high) / 2
            return torch.minimum(low, middle), torch.maximum(high, middle)
        if self.score == "normalized":
            assert second is not None
            reach = reach * second
        return first - reach, first + reach

    def document(self) -> dict[str, Any]:
        """Return everything but the limit, for JSON."""
        names = ("coverage", "score")
        return {"kind": "intervals", **{name: getattr(self, name) for name in names}}

    def tensors(self) -> dict[str, Tensor]:
        """Return what a file keeps, by name."""
        return {"limit": self.limit}


def _check_second(score: IntervalScoreName, second: Tensor | None) -> None:
    wanted = {"residual": "be None", "normalized": "be standard deviations"}
    rule = f"{wanted.get(score, 'be upper ends')} for score={score!r}"
    fits = (second is None) == (score == "residual")
    require(fits, "second", rule, None if second is None else "a tensor")


def _misfits(
    first: Tensor, second: Tensor | None, targets: Tensor, score: IntervalScoreName
) -> Tensor:
    """Return the score of each target."""
    if second is None:
        predicted, answers = joint_tensors(first=first, targets=targets)
        return (answers - predicted).abs()
    tensors = {"first": first, "second": second, "targets": targets}
    predicted, other, answers = joint_tensors(**tensors)
    if score == "quantile":
        return torch.maximum(predicted - answers, answers - other)
    least = float(other.min())
    require(least > 0, "second", "be positive standard deviations", least)
    return (answers - predicted).abs() / other
