r"""Predictions of numbers: points, normal distributions and quantiles.

Members' normal distributions :math:`N(\mu_m, \sigma_m^2)` are mixed; the mixture has
the mean :math:`\mu = \overline{\mu_m}` and the variance

.. math::
    \overline{\sigma_m^2} + \overline{(\mu_m - \mu)^2},

the noise that members see (aleatoric) and their own disagreement (epistemic). Intervals
are those of the mixture. Quantiles are averaged over members, level by level.

Means, quantiles, standard deviations and bounds are in the unit of the targets that
training saw; ``aleatoric``, ``epistemic`` and ``total_uncertainty`` are variances, in
the square of that unit. Training sees the numbers of a :class:`tepui.data.Table`
standardized: ``prediction.in_units()`` is the same prediction in the table's own unit,
which ``tepui predict`` writes.

References:
    Lakshminarayanan, Pritzel and Blundell, Simple and Scalable Predictive Uncertainty
    Estimation using Deep Ensembles, NeurIPS 2017.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.task import GAUSSIAN, REGRESSION, UNKNOWN, Task
from tepui.ensembles.conforming import Conforming
from tepui.ensembles.prediction import Prediction, mean_and_largest, some
from tepui.losses import gaussian_parameters
from tepui.losses.gaussian import finite_variances
from tepui.metrics import gaussian_quantiles


@final
@dataclass(frozen=True, eq=False, repr=False)
class NumberPrediction(Conforming):
    """Numbers, from members that were taught no noise (``MSE``).

    How far members are from each other is all that is known of their error. ``mean``
    and ``std`` are in the unit of the targets that training saw (those of a
    :class:`tepui.data.Table` are standardized; :meth:`in_units` answers in its own),
    ``epistemic`` is a variance, in its square.

    Attributes:
        outputs: Numbers of every member, ``(members, samples, numbers, …)``.
        task: Regression.
    """

    task: Task = field(default=REGRESSION, kw_only=True)
    fields: ClassVar[tuple[str, ...]] = (
        *("mean", "std", "epistemic", "outputs", "in_units()"),
        *("unfamiliarity()", "unfamiliar(level)", "objections(level)"),
    )

    @property
    def mean(self) -> Tensor:
        """Mean over members, ``(samples, numbers, …)``, in the unit of the targets."""
        return self._place(self.outputs.mean(0))

    @property
    def epistemic(self) -> Tensor:
        """Variance over members, ``(samples, numbers, …)``, in that unit squared."""
        return self._variance(self.outputs.var(0, unbiased=False))

    @property
    def std(self) -> Tensor:
        """Standard deviation over members: of their disagreement, not of the noise.

        The root of :attr:`epistemic`, in the unit of the targets.
        """
        return self.epistemic.sqrt()

    def missing(self, name: str) -> str:
        """Say what would teach members the noise."""
        if name not in ("aleatoric", "total_uncertainty", "interval", "quantiles"):
            return super().missing(name)
        return ", since MSE teaches no noise (GaussianNLL and Quantiles do)"

    def summary(self) -> dict[str, str]:
        """Return the first numbers and where members disagree most."""
        return {
            "mean": some(self.mean),
            "std (members only)": mean_and_largest(self.std),
        }


@final
@dataclass(frozen=True, eq=False, repr=False)
class GaussianPrediction(Conforming):
    """Numbers with the noise that members see in them (``GaussianNLL``).

    ``mean``, ``std`` and the bounds of ``interval`` are in the unit of the targets that
    training saw (those of a :class:`tepui.data.Table` are standardized;
    :meth:`in_units` answers in its own); ``aleatoric``, ``epistemic`` and their sum are
    variances, in its square.

    Attributes:
        outputs: Means and log-variances, ``(members, samples, 2 * numbers, …)``.
        task: Gaussian regression.
    """

    task: Task = field(default=GAUSSIAN, kw_only=True)
    fields: ClassVar[tuple[str, ...]] = (
        *("mean", "std", "interval(coverage)", "total_uncertainty"),
        *("aleatoric", "epistemic", "outputs", "in_units()"),
        *("unfamiliarity()", "unfamiliar(level)", "objections(level)"),
    )

    @property
    def mean(self) -> Tensor:
        """Mean of the members' means, ``(samples, numbers, …)``.

        In the unit of the targets.
        """
        return self._place(self._parameters[0].mean(0))

    @property
    def aleatoric(self) -> Tensor:
        """Mean of the members' variances: the noise that they see.

        In the unit of the targets squared, as all variances.
        """
        return self._variance(finite_variances(self._parameters[1]).mean(0))

    @property
    def epistemic(self) -> Tensor:
        """Variance of the members' means: how far they disagree, in squared units."""
        return self._variance(self._parameters[0].var(0, unbiased=False))

    @property
    def total_uncertainty(self) -> Tensor:
        """Variance of the mixture: :attr:`aleatoric` plus :attr:`epistemic`."""
        return self.aleatoric + self.epistemic

    @property
    def std(self) -> Tensor:
        """Standard deviation of the mixture, ``(samples, numbers, …)``.

        The root of :attr:`total_uncertainty`, in the unit of the targets.
        """
        return self.total_uncertainty.sqrt()

    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Return bounds that the number lies between with a given probability.

        Args:
            coverage: The probability, within (0, 1).

        Returns:
            Lower and upper bounds, each ``(samples, numbers, …)``; NaN where the mean
            of a member is infinite.
        """
        share = _share(coverage)
        mean, log_variance = self._parameters
        levels = (1 - share) / 2, (1 + share) / 2
        finite = mean.isfinite()
        centers, variances = mean.where(finite, 0.0), finite_variances(log_variance)
        bounds = gaussian_quantiles(centers, variances, levels)
        bounds = bounds.where(finite.all(0).unsqueeze(-1), torch.nan)
        return self._place(bounds[..., 0]), self._place(bounds[..., 1])

    def summary(self) -> dict[str, str]:
        """Return the first numbers and what they are unsure of."""
        return {
            "mean": some(self.mean),
            "std": mean_and_largest(self.std),
            "aleatoric (variance)": mean_and_largest(self.aleatoric),
            "epistemic (variance)": mean_and_largest(self.epistemic),
        }

    @property
    def _parameters(self) -> tuple[Tensor, Tensor]:
        return gaussian_parameters(self.outputs, axis=2)


@final
@dataclass(frozen=True, eq=False, repr=False)
class QuantilePrediction(Conforming):
    """Quantiles of numbers (``Quantiles``), averaged over members.

    They are in the unit of the targets that training saw (those of a
    :class:`tepui.data.Table` are standardized; :meth:`in_units` answers in its own);
    ``epistemic`` is a variance, in its square.

    Attributes:
        outputs: Quantiles of every member, ``(members, samples, levels * numbers,
            …)``.
        task: Quantiles, with their levels.
    """

    task: Task = field(kw_only=True)
    fields: ClassVar[tuple[str, ...]] = (
        *("quantiles", "median", "interval(coverage)", "epistemic", "outputs"),
        *("in_units()", "unfamiliarity(…)", "unfamiliar(level)"),
    )

    @property
    def quantiles(self) -> Tensor:
        """The quantiles in rising order, ``(levels, samples, numbers, …)``."""
        seen = member_quantiles(self.outputs, self.task).mean(0).sort(0).values
        return self._place(seen)

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
        share = _share(coverage)
        low, high = self.task.levels[0], self.task.levels[-1]
        most = 1 - 2 * max(low, 1 - high)
        rule = f"be at most {most:.4g}, which the levels {self.task.levels} reach"
        require(share <= most + 1e-9, "coverage", rule, coverage)
        return self._at((1 - share) / 2), self._at((1 + share) / 2)

    def summary(self) -> dict[str, str]:
        """Return the quantiles of the first samples and where members disagree."""
        rows = {
            f"level {level:g}": some(values)
            for level, values in zip(self.task.levels, self.quantiles, strict=True)
        }
        return {**rows, "epistemic (variance)": mean_and_largest(self.epistemic)}

    def _at(self, level: float) -> Tensor:
        return interpolated(self.quantiles, self.task.levels, level)


@final
@dataclass(frozen=True, eq=False, repr=False)
class OutputPrediction(Prediction):
    """Outputs whose meaning is not known: their loss names no task.

    Give the loss a ``task``, or name one: ``Ensemble(..., task=...)``.

    Attributes:
        outputs: Outputs of every member, ``(members, samples, …)``.
        task: Unknown.
    """

    task: Task = field(default=UNKNOWN, kw_only=True)
    fields: ClassVar[tuple[str, ...]] = ("outputs", "mean", "spread")

    @property
    def mean(self) -> Tensor:
        """Mean of the outputs over members, ``(samples, …)``."""
        return self.outputs.mean(0)

    @property
    def spread(self) -> Tensor:
        """Standard deviation of the outputs over members, ``(samples, …)``."""
        return self.outputs.std(0, unbiased=False)

    @property
    def judging(self) -> tuple[str, ...]:
        """No scores: nobody has said what outputs mean."""
        return ()

    def scores(self, names: Sequence[str] | None = None) -> dict[str, Tensor]:
        """Return no scores: nobody has said what outputs mean.

        Args:
            names: Of no effect.

        Returns:
            Nothing.
        """
        return {}

    def missing(self, name: str) -> str:
        """Say how to name the task."""
        return (
            ", since the loss that members were trained with names no task (give it "
            "an attribute task, or name one: Ensemble(..., task=...))"
        )

    def summary(self) -> dict[str, str]:
        """Return the first outputs, how far members differ, and that this is all."""
        return {
            "mean output": some(self.mean),
            "spread": mean_and_largest(self.spread),
            "meaning": "not known: the loss names no task",
        }


def member_quantiles(outputs: Tensor, task: Task) -> Tensor:
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


def _share(coverage: float) -> float:
    require(0 < coverage < 1, "coverage", "lie within (0, 1)", coverage)
    return coverage
