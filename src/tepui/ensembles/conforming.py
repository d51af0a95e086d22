"""Intervals of predicted numbers that held-out data made hold as often as promised."""

from collections.abc import Sequence

from torch import Tensor

from tepui.core.checks import one_of, require
from tepui.ensembles.prediction import Prediction
from tepui.metrics import ConformalIntervals, IntervalScoreName


class Conforming(Prediction):
    """A prediction of numbers, which may have conformal intervals."""

    @property
    def default_score(self) -> str | None:
        """How far members disagree; None of one member."""
        return "epistemic" if self.members > 1 else None

    def scores(self, names: Sequence[str] | None = None) -> dict[str, Tensor]:
        """Score how unfamiliar inputs look: how far members disagree.

        Args:
            names: ``"epistemic"``, which is all there is.

        Returns:
            The mean variance over members of a sample's numbers, ``(samples,)``.
        """
        for name in names or ():
            one_of("score", name, ["epistemic"])
        return {"epistemic": self.epistemic.flatten(1).mean(1)}

    @property
    def conformal_interval(self) -> tuple[Tensor, Tensor]:
        """Bounds that hold the number as often as ``Ensemble.conformal`` was told.

        Lower and upper bounds, each ``(samples, numbers, …)``.
        """
        conformity = self.conformity
        if not isinstance(conformity, ConformalIntervals):
            raise AttributeError("conformal_interval")  # worded by __getattr__
        parts = conformal_parts(self, conformity.score, conformity.coverage)
        return conformity.interval(*parts)

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
