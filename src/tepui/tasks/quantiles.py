"""Quantiles of numbers, which are averaged over members, level by level."""

from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import Tensor

from tepui import losses, metrics
from tepui.core.checks import require
from tepui.losses import Loss
from tepui.losses.numbers import rising
from tepui.tasks.base import Leading, Task
from tepui.tasks.numbers import Conforming, NumberTask, Parts, share_of
from tepui.tasks.prediction import per_sample


@final
@dataclass(frozen=True, eq=False, repr=False)
class QuantilePrediction(Conforming):
    """Quantiles of numbers (``Quantiles``), averaged over members.

    They are in the unit of the targets; ``epistemic`` is a variance, in its square.

    Attributes:
        outputs: Quantiles of every member, ``(members, samples, levels * numbers,
            …)``.
        task: Quantiles, with their levels.
    """

    task: "Quantiles" = field(kw_only=True)
    points = ("median",)
    shown = ("median", "epistemic")

    @property
    def quantiles(self) -> Tensor:
        """The quantiles in rising order, ``(levels, samples, numbers, …)``."""
        seen = member_quantiles(self.outputs, self.task).mean(0).sort(0).values
        return self._place(seen)

    @property
    def center(self) -> Tensor:
        """The one number to name: the median."""
        return self.median

    @property
    def median(self) -> Tensor:
        """The quantile of level 0.5, between two levels if need be."""
        return self._at(0.5)

    @property
    def epistemic(self) -> Tensor:
        """Variance over members, the mean over levels, ``(samples, numbers, …)``.

        In the unit of the targets squared.
        """
        by_member = member_quantiles(self.outputs, self.task)
        return self._variance(by_member.var(0, unbiased=False).mean(0))

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Return bounds that the number lies between with a given probability.

        Args:
            coverage: The probability; its two levels lie within those that were
                learned, between two of which bounds are interpolated.

        Returns:
            Lower and upper bounds, each ``(samples, numbers, …)``.

        Raises:
            ValueError: If no levels that far out were learned.
        """
        share = share_of(coverage)
        low, high = self.task.levels[0], self.task.levels[-1]
        most = 1 - 2 * max(low, 1 - high)
        rule = f"be at most {most:.4g}, which the levels {self.task.levels} reach"
        require(share <= most + 1e-9, "coverage", rule, coverage)
        return self._at((1 - share) / 2), self._at((1 + share) / 2)

    def interval_parts(self, score: str, coverage: float) -> Parts:
        """Return the lowest and the highest quantile, or the median."""
        if score == "quantile":
            return self.quantiles[0], self.quantiles[-1]
        return self.median, None

    def statistics(self, targets: Tensor) -> dict[str, Tensor]:
        """Return the quantiles, with the levels last."""
        quantiles = self.quantiles.movedim(0, -1)
        return {
            "target": self._place(targets),
            "epistemic_variance": self.epistemic,
            "quantiles": quantiles,
        }

    def _at(self, level: float) -> Tensor:
        return interpolated(self.quantiles, self.task.levels, level)


def member_quantiles(outputs: Tensor, task: "Quantiles") -> Tensor:
    """Return quantiles as ``(members, levels, samples, numbers, …)``."""
    levels = len(task.levels)
    fits = outputs.ndim > 2 and outputs.shape[2] % levels == 0
    rule = f"be one for each of {levels} levels and each number"
    require(fits, "outputs", rule, f"shape {tuple(outputs.shape)}")
    return torch.stack(outputs.chunk(levels, 2), 1)


def interpolated(quantiles: Tensor, levels: tuple[float, ...], level: float) -> Tensor:
    """Return the quantile of any level between those that are there.

    Example:
        >>> interpolated(torch.tensor([[0.0], [8.0]]), (0.25, 0.75), 0.5)
        tensor([4.])
    """
    inside = levels[0] - 1e-9 <= level <= levels[-1] + 1e-9
    require(inside, "level", f"lie within the levels {levels}", level)
    upper = next((n for n, at in enumerate(levels) if at >= level - 1e-9), len(levels))
    if upper == 0 or abs(levels[upper] - level) < 1e-9:
        return quantiles[upper]
    low, high = levels[upper - 1], levels[upper]
    share = (level - low) / (high - low)
    return torch.lerp(quantiles[upper - 1], quantiles[upper], share)


@final
@dataclass(frozen=True)
class Quantiles(NumberTask):
    """The first level of all numbers, then the second, and so on.

    Attributes:
        levels: The levels, rising within (0, 1).

    Example:
        >>> Quantiles([0.05, 0.5, 0.95]).levels
        (0.05, 0.5, 0.95)
    """

    levels: tuple[float, ...]
    word = "quantiles"
    predicts = QuantilePrediction
    leading = Leading(
        "quantile_loss", "rmse", ("rmse", "individual_rmse", "quantile_loss")
    )
    conformal = ("quantile", "residual")

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", rising(self.levels))

    @property
    def loss(self) -> Loss:
        """Pinball loss."""
        return losses.Quantiles(self.levels)

    @classmethod
    def of_loss(cls, loss: Any) -> Task | None:
        """Return the task of a pinball loss."""
        return cls(loss.levels) if isinstance(loss, losses.Quantiles) else None

    def outputs(self, answers: int) -> int:
        """Return an output for each level of each number."""
        return answers * len(self.levels)

    @property
    def nominal(self) -> float:
        """The share of targets that lie between the outer levels."""
        return round(self.levels[-1] - self.levels[0], 12)

    @property
    def levels_of(self) -> dict[str, tuple[float, ...]]:
        """The levels of the quantiles."""
        return {"quantiles": self.levels}

    def points(self, outputs: Tensor) -> Tensor:
        """Return the quantile of each member that lies in the middle."""
        by_member = member_quantiles(outputs, self)
        middle = min(max(0.5, self.levels[0]), self.levels[-1])
        return interpolated(by_member.movedim(1, 0), self.levels, middle)

    def unfamiliarity(self, outputs: Tensor) -> dict[str, Tensor]:
        """Return how far members disagree, and how far the outer levels are apart."""
        found = super().unfamiliarity(outputs)
        if len(self.levels) > 1:
            out = self.prediction(outputs)
            found["interval_width"] = per_sample(out.quantiles[-1] - out.quantiles[0])
        return found

    def further_scores(self) -> dict[str, Any]:
        """Return scores of the quantiles and of the interval between the outer ones."""
        return {
            "quantile_loss": metrics.QuantileCRPS(levels=self.levels),
            "interval_coverage": metrics.IntervalCoverage(),
            "interval_width": metrics.IntervalWidth(),
            "quantile_calibration": metrics.QuantileCalibration(levels=self.levels),
        }

    def scored_by(
        self, outputs: Tensor, answers: Tensor
    ) -> dict[str, tuple[Tensor, ...]]:
        """Return the ensemble's quantiles, in rising order."""
        averaged = member_quantiles(outputs, self).mean(0)
        values = averaged.sort(0).values.movedim(0, -1)
        bounds, given = (values[..., 0], values[..., -1]), (values, answers)
        return {
            "quantile_loss": given,
            "quantile_calibration": given,
            "interval_width": bounds,
            "interval_coverage": (*bounds, answers),
        }
