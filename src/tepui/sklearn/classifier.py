"""A classifier of scikit-learn that is an ensemble."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from tepui.core.checks import require
from tepui.losses import CrossEntropy, Loss, balanced_weights
from tepui.losses.classification import BALANCED
from tepui.methods.base import Method
from tepui.metrics import CalibrationMethod, Score, SetScore
from tepui.sklearn.base import (
    FLOATS,
    Array,
    EnsembleEstimator,
    ModelFactory,
    as_array,
    weighted_rows,
)
from tepui.tasks import task_of
from tepui.training.history import EarlyStopping
from tepui.training.optimizer import Optimizer, Schedule

ClassWeight = Mapping[Any, float] | Literal["balanced"]


@final
class EnsembleClassifier(ClassifierMixin, EnsembleEstimator):
    """An ensemble of networks that chooses between classes.

    Features are standardized inside. Networks compute in the type of ``X``, float32 or
    float64. Up to ``batch_size`` samples, a step sees all of them, and integer weights
    do what repeated samples would, to rounding; beyond, they do so on average.

    Args:
        members: How many networks.
        method: How they are trained, such as ``tepui.methods.SAM()``; None is
            ``DeepEnsemble()``.
        model: ``model(features, outputs)`` returns a new network of your own; None is a
            :class:`tepui.models.MLP`.
        hidden: Widths of the hidden layers of that MLP.
        epochs: Passes through the data.
        batch_size: Samples per step.
        loss: Of classes; None is ``CrossEntropy()``.
        optimizer: None is ``SGD(lr=0.1, weight_decay=0.01)``, whose decay falls
            as one over the number of rows from 400 on; gradients are then clipped to 1.
        schedule: Learning rate over time; None is ``Cosine()``.
        class_weight: How much classes count: ``"balanced"``, so that all count the same
            in sum, or a dict of classes to numbers, where those left out have 1.
        early_stopping: Hold out rows and end once five epochs in a row did not lower
            the loss on them, or as a :class:`tepui.EarlyStopping` says; every network
            keeps its best weights.
        validation_fraction: Share of the rows that ``early_stopping`` holds out.
        random_state: An integer, for the same networks at every ``fit``; None or a
            ``RandomState``.
        device: Where to train and predict.

    Attributes:
        classes_: The classes, in the order of probabilities.
        ensemble_: The trained :class:`tepui.Ensemble`, for everything else that one
            can do with it; its classes are numbers.
        history_: One record per epoch.
        n_features_in_: Number of features.
        feature_names_in_: Their names, where ``X`` had names.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = EnsembleClassifier(members=2, epochs=20, random_state=0).fit(X, y)
        >>> bool(model.score(X, y) > 0.9)
        True
    """

    classes_: Array

    def __init__(
        self,
        members: int = 5,
        *,
        method: Method | None = None,
        model: ModelFactory | None = None,
        hidden: Sequence[int] = (64, 64),
        epochs: int = 50,
        batch_size: int = 128,
        loss: Loss | None = None,
        optimizer: Optimizer | None = None,
        schedule: Schedule | None = None,
        class_weight: ClassWeight | None = None,
        early_stopping: bool | EarlyStopping = False,
        validation_fraction: float = 0.1,
        random_state: Any = None,
        device: str | torch.device = "cpu",
    ) -> None:
        super().__init__(
            members,
            method=method,
            model=model,
            hidden=hidden,
            epochs=epochs,
            batch_size=batch_size,
            loss=loss,
            optimizer=optimizer,
            schedule=schedule,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            random_state=random_state,
            device=device,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the ensemble anew.

        Args:
            X: Numbers, ``(samples, features)``.
            y: One class per sample: numbers or words.
            sample_weight: How much each sample counts; None for all alike.

        Returns:
            The estimator.
        """
        X, y = validate_data(self, X, y, dtype=FLOATS)
        check_classification_targets(y)
        X, y, weights = weighted_rows(X, y, sample_weight)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        rule = "hold at least two classes"
        require(len(self.classes_) > 1, "y", rule, f"{len(self.classes_)} class")
        about = self.class_weight, self.classes_, numbers, weights
        loss = weighted(self._loss, *about)
        return self._train(X, torch.from_numpy(numbers), weights, loss)

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each sample.

        Args:
            X: Numbers, ``(samples, features)``.

        Returns:
            Classes, ``(samples,)``.
        """
        labels = as_array(self._predicted(X).labels)
        return self.classes_[labels]

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of all classes, the mean over networks.

        Args:
            X: Numbers, ``(samples, features)``.

        Returns:
            Probabilities, ``(samples, classes)``, in the order of ``classes_``.
        """
        return as_array(self._predicted(X).probs)

    def predict_set(self, X: Any) -> Array:
        """Return which classes are in the conformal set of each sample.

        Args:
            X: Numbers, ``(samples, features)``.

        Returns:
            Truth values, ``(samples, classes)``, in the order of ``classes_``.

        Raises:
            ValueError: If :meth:`conformal` was not called since ``fit``.
        """
        predicted = self._predicted(X)
        rule = "be given held-out data first, by conformal(X, y)"
        require(predicted.conformity is not None, "estimator", rule, "none")
        return as_array(predicted.sets)

    def ood_score(self, X: Any, score: Score = "pds") -> Array:
        """Return how unfamiliar each sample looks; higher is less familiar.

        Networks are all sure of rows far out, which score low: :meth:`unfamiliar` finds
        those, and says yes or no.

        Args:
            X: Numbers, ``(samples, features)``.
            score: Which score, see :meth:`tepui.Prediction.ood_score`.

        Returns:
            One score per sample.
        """
        return as_array(self._predicted(X).ood_score(score))

    def calibrate(
        self, X: Any, y: Any, method: CalibrationMethod = "temperature"
    ) -> Self:
        """Make probabilities mean what they say, by held-out data.

        :meth:`unfamiliar` compares rows with the same data.

        Args:
            X: Numbers that ``fit`` has not seen.
            y: Their classes, all known from ``fit``.
            method: ``"temperature"``, ``"vector"`` or ``"isotonic"``.

        Returns:
            The estimator.
        """
        held = self._held_out(*self._numbered(X, y))
        self.ensemble_.calibrate(held, method)
        self._compare(held)
        return self

    def conformal(
        self, X: Any, y: Any, coverage: float = 0.9, score: SetScore = "threshold"
    ) -> Self:
        """Let :meth:`predict_set` hold the true class as often as told.

        :meth:`unfamiliar` compares rows with the same data.

        Args:
            X: Numbers that neither ``fit`` nor :meth:`calibrate` has seen.
            y: Their classes, all known from ``fit``.
            coverage: How often, in (0, 1).
            score: ``"threshold"`` or ``"aps"``.

        Returns:
            The estimator.
        """
        held = self._held_out(*self._numbered(X, y))
        self.ensemble_.conformal(held, coverage, score)
        self._compare(held)
        return self

    @property
    def _loss(self) -> Loss:
        loss = CrossEntropy() if self.loss is None else self.loss
        task = task_of(loss)
        rule = "be of classes, such as CrossEntropy()"
        require(task.chooses is True, "loss", rule, f"one of the task {task}")
        return loss

    @property
    def _outputs(self) -> int:
        return len(self.classes_)

    def _numbered(self, X: Any, y: Any) -> tuple[Array, torch.Tensor]:
        """Return checked data with classes as numbers."""
        check_is_fitted(self)
        X, y = validate_data(self, X, y, reset=False, dtype=FLOATS)
        unknown = np.setdiff1d(y, self.classes_)
        rule = "hold classes that fit has seen"
        require(len(unknown) == 0, "y", rule, unknown[:5].tolist())
        return X, torch.from_numpy(np.searchsorted(self.classes_, y))


def weighted(
    loss: Loss,
    class_weight: ClassWeight | None,
    classes: NDArray[Any],
    numbers: NDArray[Any],
    weights: NDArray[Any] | None,
) -> Loss:
    """Return a loss in which classes count as told, and samples one on average.

    Args:
        loss: Without weights of classes.
        class_weight: ``"balanced"``, or numbers by class; None leaves all alike.
        classes: The classes.
        numbers: Which of them each sample has.
        weights: How much each sample counts beside that, if not all count alike.

    Raises:
        ValueError: If weights are none of these, or the loss cannot have them.

    Example:
        >>> classes, numbers = np.array(["no", "yes"]), np.array([0, 0, 0, 1])
        >>> weighted(CrossEntropy(), "balanced", classes, numbers, None).class_weights
        (0.6666666666666666, 2.0)
    """
    if class_weight is None:
        return loss
    rule = "be None beside a loss that has class weights, or is of your own"
    if not isinstance(loss, CrossEntropy) or loss.class_weights is not None:
        raise ValueError(f"class_weight must {rule}, got {class_weight!r}")
    if isinstance(class_weight, Mapping):
        unknown = [name for name in class_weight if name not in classes]
        rule = f"name classes of y ({', '.join(map(str, classes))})"
        require(not unknown, "class_weight", rule, unknown)
        factors = np.array([float(class_weight.get(name, 1.0)) for name in classes])
    else:
        rule = f'be "{BALANCED}", or numbers by class'
        require(class_weight == BALANCED, "class_weight", rule, class_weight)
        factors = np.array(balanced_weights(torch.from_numpy(numbers), len(classes)))
    mean = np.average(factors[numbers], weights=weights)
    return replace(loss, class_weights=tuple((factors / mean).tolist()))
