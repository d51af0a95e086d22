r"""Normal distributions of numbers.

Members' normal distributions :math:`N(\mu_m, \sigma_m^2)` are mixed; the mixture has
the mean :math:`\mu = \overline{\mu_m}` and the variance

.. math::
    \overline{\sigma_m^2} + \overline{(\mu_m - \mu)^2},

the noise that members see (aleatoric) and their own disagreement (epistemic). Intervals
are those of the mixture.

References:
    Lakshminarayanan, Pritzel and Blundell, Simple and Scalable Predictive Uncertainty
    Estimation using Deep Ensembles, NeurIPS 2017.
"""

from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import Tensor

from tepui import metrics
from tepui.losses import GaussianNLL, gaussian_nll, gaussian_parameters
from tepui.losses.numbers import finite_variances
from tepui.metrics import gaussian_quantiles
from tepui.tasks.base import Task
from tepui.tasks.numbers import COVERAGE, Conforming, NumberTask, share_of

# Levels at which a predicted distribution is compared with the targets.
LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@final
@dataclass(frozen=True, eq=False, repr=False)
class GaussianPrediction(Conforming):
    """Numbers with the noise that members see in them (``GaussianNLL``).

    ``mean``, ``std`` and the bounds of ``interval`` are in the unit of the targets;
    ``aleatoric``, ``epistemic`` and their sum are variances, in its square.

    Attributes:
        outputs: Means and log-variances, ``(members, samples, 2 * numbers, …)``.
        task: Gaussian regression.
    """

    task: Task = field(default_factory=lambda: Gaussians(), kw_only=True)  # noqa: PLW0108

    shown = ("mean", "std", "aleatoric", "epistemic")

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
        share = share_of(coverage)
        mean, log_variance = self._parameters
        levels = (1 - share) / 2, (1 + share) / 2
        finite = mean.isfinite()
        centers, variances = mean.where(finite, 0.0), finite_variances(log_variance)
        bounds = gaussian_quantiles(centers, variances, levels)
        bounds = bounds.where(finite.all(0).unsqueeze(-1), torch.nan)
        return self._place(bounds[..., 0]), self._place(bounds[..., 1])

    def statistics(self, targets: Tensor) -> dict[str, Tensor]:
        """Return means, the noise that members see, and bounds of 90 %."""
        lower, upper = self.interval(COVERAGE)
        more = {"lower": lower, "upper": upper, "aleatoric_variance": self.aleatoric}
        return {**super().statistics(targets), **more}

    @property
    def _parameters(self) -> tuple[Tensor, Tensor]:
        return gaussian_parameters(self.outputs, axis=2)


@final
@dataclass(frozen=True)
class Gaussians(NumberTask):
    """The means of all numbers, and after them as many logarithms of variances."""

    word = "gaussian"
    losses = (GaussianNLL, gaussian_nll)
    predicts = GaussianPrediction
    conformal = ("normalized", "residual", "quantile")
    judged_by = ("total_uncertainty", "epistemic")

    def outputs(self, answers: int) -> int:
        """Return two outputs for each number."""
        return 2 * answers

    @property
    def nominal(self) -> float:
        """The share of targets that intervals promise to hold."""
        return COVERAGE

    @property
    def levels_of(self) -> dict[str, tuple[float, ...]]:
        """The coverage of the bounds."""
        return dict.fromkeys(("lower", "upper"), (COVERAGE,))

    def points(self, outputs: Tensor) -> Tensor:
        """Return the mean of each member."""
        return gaussian_parameters(outputs, axis=2)[0]

    def further_scores(self) -> dict[str, Any]:
        """Return scores of the distributions and of their intervals."""
        return {
            "nll": metrics.GaussianNLL(),
            "crps": metrics.GaussianCRPS(),
            "interval_coverage": metrics.IntervalCoverage(),
            "interval_width": metrics.IntervalWidth(),
            "quantile_calibration": metrics.QuantileCalibration(levels=LEVELS),
        }

    def scored_by(
        self, outputs: Tensor, answers: Tensor
    ) -> dict[str, tuple[Tensor, ...]]:
        """Return distributions, and the quantiles of their mixture."""
        mean, log_variance = gaussian_parameters(outputs, axis=2)
        given = mean, finite_variances(log_variance), answers
        share = (1 - COVERAGE) / 2
        levels = share, *LEVELS, 1 - share
        values = gaussian_quantiles(*given[:2], levels)
        bounds = values[..., 0], values[..., -1]
        return {
            "nll": given,
            "crps": given,
            "interval_width": bounds,
            "interval_coverage": (*bounds, answers),
            "quantile_calibration": (values[..., 1:-1], answers),
        }
