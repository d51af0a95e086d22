"""What all predictions of numbers have: their unit, and conformal intervals.

Conformal intervals are those that held-out data made hold as often as promised.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from torch import Tensor

from tepui.core.checks import one_of, require
from tepui.data.arrays import Normalize
from tepui.ensembles.prediction import Prediction
from tepui.metrics import ConformalIntervals, IntervalScoreName


@dataclass(frozen=True, eq=False, repr=False)
class Conforming(Prediction):
    """A prediction of numbers, which may have conformal intervals.

    Attributes:
        units: Mean and standard deviation by which a :class:`tepui.data.Table`
            standardized the numbers that training saw; None where it saw them as they
            are.
        converted: Whether answers are in the table's own unit.
    """

    units: Normalize | None = field(default=None, kw_only=True)
    converted: bool = field(default=False, kw_only=True)

    def in_units(self) -> Self:
        """Return the same prediction in the table's own unit, not standardized.

        Means, quantiles, standard deviations and bounds are in that unit, variances in
        its square, all in float64. ``outputs``, scores and how unfamiliar inputs look
        stay as they are.

        Returns:
            A prediction of the same kind.

        Raises:
            ValueError: If training saw no numbers of a :class:`tepui.data.Table`.

        Example:
            >>> import torch
            >>> from tepui.ensembles import NumberPrediction
            >>> prices = Normalize((200_000.0,), (50_000.0,))
            >>> out = NumberPrediction(torch.tensor([[[0.5]], [[1.5]]]), units=prices)
            >>> float(out.mean), float(out.in_units().mean), float(out.in_units().std)
            (1.0, 250000.0, 25000.0)
        """
        rule = (
            "have learned numbers of a table (tepui.data.Table) to answer in its unit"
        )
        require(self.units is not None, "ensemble", rule, "other targets")
        return replace(self, converted=True)

    def _place(self, values: Tensor) -> Tensor:
        """Return means, quantiles or bounds in the unit of the answers."""
        if self.units is None or not self.converted:
            return values
        return values.double() * self.units.std[0] + self.units.mean[0]

    def _variance(self, values: Tensor) -> Tensor:
        """Return variances in the square of the unit of the answers."""
        if self.units is None or not self.converted:
            return values
        return values.double() * self.units.std[0] ** 2

    @property
    def judging(self) -> tuple[str, ...]:
        """How far members disagree; nothing of one member."""
        return ("epistemic",) if self.members > 1 else ()

    def scores(self, names: Sequence[str] | None = None) -> dict[str, Tensor]:
        """Score how unfamiliar inputs look: how far members disagree.

        Args:
            names: ``"epistemic"``, which is all there is.

        Returns:
            The mean variance over members of a sample's numbers, ``(samples,)``, in
            the square of the unit that training saw.
        """
        for name in names or ():
            one_of("score", name, ["epistemic"])
        seen = replace(self, converted=False).epistemic
        return {"epistemic": seen.flatten(1).mean(1)}

    @property
    def conformal_interval(self) -> tuple[Tensor, Tensor]:
        """Bounds that hold the number as often as ``Ensemble.conformal`` was told.

        Lower and upper bounds, each ``(samples, numbers, …)``.
        """
        conformity = self.conformity
        if not isinstance(conformity, ConformalIntervals):
            raise AttributeError("conformal_interval")  # worded by __getattr__
        seen = replace(self, converted=False)
        parts = conformal_parts(seen, conformity.score, conformity.coverage)
        lower, upper = conformity.interval(*parts)
        return self._place(lower), self._place(upper)

    def missing(self, name: str) -> str:
        """Say what intervals need."""
        if name != "conformal_interval":
            return super().missing(name)
        return ", since the ensemble was given no data for it (Ensemble.conformal)"


def conformal_parts(
    prediction: Prediction, score: IntervalScoreName, coverage: float
) -> tuple[Tensor, Tensor | None]:
    """Return what an interval is made of: center, or center and spread, or two ends."""
    name = prediction.task.name
    if score == "quantile":
        rule = "be residual or normalized for members that predict no quantiles"
        require(name != "regression", "score", rule, score)
        if name == "gaussian":
            lower, upper = prediction.interval(coverage)
            return lower, upper
        return prediction.quantiles[0], prediction.quantiles[-1]
    center = prediction.median if name == "quantiles" else prediction.mean
    if score == "residual":
        return center, None
    rule = "be residual or quantile for members that predict quantiles"
    require(name != "quantiles", "score", rule, score)
    return center, prediction.std
