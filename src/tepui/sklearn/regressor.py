"""A regressor of scikit-learn that is an ensemble."""

from typing import Any, Self, final

import torch
from sklearn.base import RegressorMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from tepui.core.checks import require
from tepui.losses import MSE, Loss
from tepui.metrics import IntervalScoreName
from tepui.sklearn.base import (
    FLOATS,
    Array,
    EnsembleEstimator,
    as_array,
    weighted_rows,
)
from tepui.tasks import task_of

CHECKED: dict[str, Any] = {"dtype": FLOATS, "y_numeric": True, "multi_output": True}


@final
class EnsembleRegressor(RegressorMixin, EnsembleEstimator):
    """An ensemble of networks that predicts numbers.

    Features and targets are standardized inside; what is predicted is in the targets'
    own units. Networks compute in the type of ``X``, float32 or float64. Up to
    ``batch_size`` samples, a step sees all of them, and integer weights do what
    repeated samples would, to rounding; beyond, they do so on average.

    Args:
        members: How many networks.
        method: How they are trained, such as ``tepui.methods.SAM()``; None is
            ``DeepEnsemble()``.
        model: ``model(features, outputs)`` returns a new network of your own; None is a
            :class:`tepui.models.MLP`.
        hidden: Widths of the hidden layers of that MLP.
        epochs: Passes through the data.
        batch_size: Samples per step.
        loss: None is ``MSE()``. ``GaussianNLL()`` teaches networks the noise of the
            targets, too, for which they have two outputs per number; ``Quantiles(...)``
            has one per level.
        optimizer: None is ``SGD(lr=0.03, weight_decay=0.05)``, whose decay falls
            as one over the number of rows from 400 on; gradients are then clipped to 1.
        schedule: Learning rate over time; None is ``Cosine()``.
        early_stopping: Hold out rows and end once five epochs in a row did not lower
            the loss on them, or as a :class:`tepui.EarlyStopping` says; every network
            keeps its best weights.
        validation_fraction: Share of the rows that ``early_stopping`` holds out.
        random_state: An integer, for the same networks at every ``fit``; None or a
            ``RandomState``.
        device: Where to train and predict.

    Attributes:
        ensemble_: The trained :class:`tepui.Ensemble`, for everything else that one
            can do with it; its numbers are standardized.
        target_mean_: What was taken from the targets, one per number.
        target_scale_: What they were divided by then.
        history_: One record per epoch.
        n_features_in_: Number of features.
        feature_names_in_: Their names, where ``X`` had names.

    Example:
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = EnsembleRegressor(members=2, epochs=20, random_state=0).fit(X, y)
        >>> bool(model.score(X, y) > 0.4)
        True
    """

    target_mean_: Array
    _rate, _decay = 0.03, 0.05
    target_scale_: Array

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the ensemble anew.

        Args:
            X: Numbers, ``(samples, features)``.
            y: Numbers, ``(samples,)`` or ``(samples, numbers)``.
            sample_weight: How much each sample counts; None for all alike.

        Returns:
            The estimator.
        """
        X, y = validate_data(self, X, y, **CHECKED)
        X, y, weights = weighted_rows(X, y, sample_weight)
        columns = as_columns(y)
        rule, varies = "hold at least two different numbers", columns != columns[:1]
        require(bool(varies.any()), "y", rule, f"one in {len(y)} sample(s)")
        scaler = StandardScaler().fit(columns, sample_weight=weights)
        self.target_mean_, self.target_scale_ = scaler.mean_, scaler.scale_
        self._flat = y.ndim == 1
        return self._train(X, self._standardized(columns, X), weights, self._loss)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the mean over networks; of quantiles, the median.

        Args:
            X: Numbers, ``(samples, features)``.
            return_std: Return standard deviations too: of noise and disagreement with
                ``GaussianNLL()``, of the networks' disagreement alone with ``MSE()``.

        Returns:
            Numbers in the shape of ``y``; or these and their standard deviations.

        Raises:
            ValueError: If standard deviations are asked of quantiles.
        """
        predicted = self._predicted(X)
        numbers = self._in_units(predicted.center)
        if not return_std:
            return numbers
        rule = "be False for quantiles, which have intervals"
        require(hasattr(predicted, "std"), "return_std", rule, return_std)
        return numbers, self._shaped(self._scaled(predicted.std))

    def predict_interval(
        self, X: Any, coverage: float | None = None
    ) -> tuple[Array, Array]:
        """Return bounds that the number lies between.

        Args:
            X: Numbers, ``(samples, features)``.
            coverage: How probable that shall be by what networks say of the noise, for
                ``GaussianNLL()`` and ``Quantiles(...)``; None takes what
                :meth:`conformal` was told, which held-out data make true.

        Returns:
            Lower and upper bounds in the shape of ``y``.

        Raises:
            ValueError: If there is nothing to make intervals of.
        """
        predicted = self._predicted(X)
        if coverage is None:
            rule = "be given, or held-out data to conformal(X, y) before"
            require(predicted.conformity is not None, "coverage", rule, None)
            bounds = predicted.conformal_interval
        else:
            rule = "be None for MSE, which teaches no noise (GaussianNLL() does)"
            require(hasattr(predicted, "interval"), "coverage", rule, coverage)
            bounds = predicted.interval(coverage)
        lower, upper = map(self._in_units, bounds)
        return lower, upper

    def ood_score(self, X: Any) -> Array:
        """Return how far networks disagree on each sample; higher is less familiar.

        :meth:`unfamiliar` says yes or no, by how far out a row lies.

        Args:
            X: Numbers, ``(samples, features)``.

        Returns:
            Standard deviations over networks, in standardized units, the mean over
            several numbers, ``(samples,)``.
        """
        return as_array(self._predicted(X).epistemic.sqrt().mean(1))

    def conformal(
        self,
        X: Any,
        y: Any,
        coverage: float = 0.9,
        score: IntervalScoreName | None = None,
    ) -> Self:
        """Let :meth:`predict_interval` hold the number as often as told.

        :meth:`unfamiliar` compares rows with the same data.

        Args:
            X: Numbers that ``fit`` has not seen.
            y: Their targets.
            coverage: How often, in (0, 1).
            score: ``"residual"``, ``"normalized"`` or ``"quantile"``; None takes what
                fits the loss.

        Returns:
            The estimator.
        """
        check_is_fitted(self)
        X, y = validate_data(self, X, y, reset=False, **CHECKED)
        columns = as_columns(y)
        rule = f"have as many numbers as in fit ({len(self.target_mean_)})"
        fits = columns.shape[1] == len(self.target_mean_)
        require(fits, "y", rule, columns.shape[1])
        held = self._held_out(X, self._standardized(columns, X))
        self.ensemble_.conformal(held, coverage, score)
        self._compare(held)
        return self

    @property
    def _loss(self) -> Loss:
        return MSE() if self.loss is None else self.loss

    @property
    def _outputs(self) -> int:
        task = task_of(self._loss)
        rule = "be of numbers: MSE(), GaussianNLL() or Quantiles(...)"
        require(task.measure == "rmse", "loss", rule, f"one of the task {task}")
        outputs = task.outputs(len(self.target_mean_))
        assert outputs is not None
        return outputs

    def _standardized(self, columns: Array, X: Array) -> Tensor:
        values = (columns - self.target_mean_) / self.target_scale_
        return torch.from_numpy(values.astype(X.dtype))

    def _in_units(self, numbers: Tensor) -> Array:
        return self._shaped(self._scaled(numbers) + self.target_mean_)

    def _scaled(self, numbers: Tensor) -> Array:
        return as_array(numbers) * self.target_scale_

    def _shaped(self, columns: Array) -> Array:
        return columns[:, 0] if self._flat else columns


def as_columns(y: Array) -> Array:
    """Return targets as ``(samples, numbers)``."""
    return y[:, None] if y.ndim == 1 else y
