"""What the classifier and the regressor share.

A fitted one is kept in a folder: its ensemble, and a JSON document of all else.
Parameters are written as everywhere, such as ``SAM(rho=0.1)``, and read by the table of
tepui's classes; code of your own is given again when an estimator is loaded.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from tepui.core.checks import one_of, require
from tepui.core.spec import read_argument, written
from tepui.core.storage import read_document, reading, tensors_digest, write_document
from tepui.core.types import check_types
from tepui.data.arrays import Arrays, Normalize
from tepui.data.preparation import Preparation
from tepui.ensembles.ensemble import FILE as ENSEMBLE
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.feature_detectors import DISTANCE, FeatureDetectors, RowDistance
from tepui.ensembles.loading import load
from tepui.losses import Loss
from tepui.methods import DeepEnsemble
from tepui.methods.base import Method
from tepui.metrics import HeldOutScores
from tepui.metrics.held_out_scores import LEVEL, unfamiliar_at
from tepui.models import MLP
from tepui.modules.state import weights_digest
from tepui.training import SGD, Cosine, EarlyStopping, fit
from tepui.training.optimizer import Optimizer, Schedule

Array = NDArray[Any]
ModelFactory = Callable[[int, int], nn.Module]

# In both, X is computed in as it comes; other types become the first.
FLOATS = (np.float64, np.float32)
FILE = "estimator.json"
KIND = "estimator"
# What fit learns beside the ensemble, where there is some.
LEARNED = ("classes_", "feature_names_in_", "target_mean_", "target_scale_")


class EnsembleEstimator(BaseEstimator, ABC):
    """An ensemble of networks that learns from a table of numbers."""

    n_features_in_: int
    ensemble_: Ensemble
    _flat: bool = True  # whether targets had one axis
    _rate, _decay = 0.1, 0.01  # of SGD, and of its weights for 400 rows or fewer

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
        early_stopping: bool | EarlyStopping = False,
        validation_fraction: float = 0.1,
        random_state: Any = None,
        device: str | torch.device = "cpu",
    ) -> None:
        self.members = members
        self.method = method
        self.model = model
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.loss = loss
        self.optimizer = optimizer
        self.schedule = schedule
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.device = device

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Save the fitted estimator: an ensemble's folder and a JSON document beside.

        ``tepui.load`` reads the ensemble in it, too.

        Args:
            path: The folder.
            overwrite: Replace what is there.

        Returns:
            The folder.

        Raises:
            FileExistsError: If an ensemble is there and ``overwrite`` is false.
        """
        check_is_fitted(self)
        self.ensemble_.save(path, overwrite)
        folder = Path(path)
        parameters = self.get_params(deep=False)
        learned = {name: getattr(self, name, None) for name in LEARNED}
        document = {
            "estimator": type(self).__name__,
            "parameters": {name: _text(value) for name, value in parameters.items()},
            "ensemble": tensors_digest(folder / ENSEMBLE),
            "wide": self.ensemble_.dtype == torch.float64,
            "features": self.n_features_in_,
            "flat": self._flat,
            "learned": {
                name: {"values": array.tolist(), "type": array.dtype.str}
                for name, array in learned.items()
                if array is not None
            },
        }
        write_document(folder / FILE, KIND, document)
        return folder

    @classmethod
    def load(cls, path: str | Path, **parameters: Any) -> Self:
        """Read what :meth:`save` wrote; nothing in the folder is executed.

        Args:
            path: The folder.
            parameters: Parameters that are code of your own, such as ``model``, which
                no file holds; others may be given and are then not read.

        Returns:
            The fitted estimator.

        Raises:
            FileNotFoundError: If there is no estimator.
            ValueError: If the folder is damaged, holds another kind of estimator, or a
                parameter of your own is missing.
        """
        folder = Path(path)
        file = folder / FILE
        if not file.exists():
            raise FileNotFoundError(f"no estimator in {folder}")
        document = read_document(file, KIND)
        with reading(file, "an estimator"):
            name = document["estimator"]
            require(name == cls.__name__, str(file), f"hold {cls.__name__}", name)
            stored = {
                name: _value(name, text, file)
                for name, text in document["parameters"].items()
                if name not in parameters
            }
            estimator = cls(**stored, **parameters)
            estimator.n_features_in_ = int(document["features"])
            estimator._flat = bool(document["flat"])
            for name, array in document["learned"].items():
                one_of(f"learned in {file}", name, LEARNED)
                setattr(estimator, name, _array(array["values"], array["type"], file))
            rule = "describe the ensemble beside it"
            same = document["ensemble"] == tensors_digest(folder / ENSEMBLE)
            require(same, str(file), rule, "another one's digest")
            dtype = torch.float64 if document["wide"] else torch.float32
        own = None if estimator.model is None else partial(estimator._member, dtype)
        estimator.ensemble_ = load(folder, own).to(estimator.device)
        return estimator

    def unfamiliarity(self, X: Any) -> Array:
        """Return how many of the held-out rows look more familiar than each row.

        Half of them look more familiar than a usual row, and all of them more than one
        that is unlike the data that ``fit`` has seen.

        Args:
            X: Numbers, ``(samples, features)``.

        Returns:
            Shares in [0, n / (n + 1)] for ``n`` held-out rows, ``(samples,)``, by the
            distance from the rows of ``fit``.

        Raises:
            ValueError: If no held-out data were given since ``fit``.
        """
        predicted = self._predicted(X)
        detectors = self.ensemble_.detectors
        if detectors is None or detectors.held_out is None:
            rule = "be given held-out data first, by conformal(X, y), or by "
            rule += "calibrate(X, y) of a classifier"
            raise ValueError(f"estimator must {rule}, to know unfamiliar rows")
        return as_array(predicted.unfamiliarity())

    def unfamiliar(self, X: Any, level: float = LEVEL) -> Array:
        """Return which rows look unlike the data that ``fit`` has seen.

        Args:
            X: Numbers, ``(samples, features)``.
            level: Which share of the held-out rows must look more familiar. Of rows
                like those about ``1 - level`` are called unfamiliar too: false alarms,
                one in a hundred by default, and no fewer than one in ``n + 1`` with
                ``n`` held-out rows.

        Returns:
            Truth values, ``(samples,)``.

        Raises:
            ValueError: As :meth:`unfamiliarity`, or if the level lies outside (0, 1].
        """
        shares = torch.from_numpy(self.unfamiliarity(X))
        held_out = self.ensemble_.judged_by
        assert held_out is not None
        return as_array(unfamiliar_at(level, shares, held_out.samples))

    def _train(
        self, X: Array, targets: Tensor, weights: Array | None, loss: Loss
    ) -> Self:
        """Let a new ensemble learn from checked data."""
        check_types(type(self).__init__, self.get_params(deep=False))
        inputs = torch.tensor(X)
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        factory = partial(self._member, inputs.dtype)
        ensemble = Ensemble.build(factory, self.members, int(seed))
        method = DeepEnsemble() if self.method is None else self.method
        run = fit(
            ensemble,
            Arrays(inputs, targets, _normalization(X, weights)),
            method=method,
            epochs=self.epochs,
            batch_size=min(self.batch_size, len(inputs)),
            loss=loss,
            sample_weights=_factors(weights),
            **self._ending,
            **self._steps(len(X)),
            schedule=Cosine() if self.schedule is None else self.schedule,
            device=self.device,
            precision="float32",
            progress="none",
        )
        self.history_ = run.history
        self.ensemble_ = ensemble.eval()
        ensemble.detectors = FeatureDetectors(
            fitted_for=weights_digest(ensemble),
            rows=RowDistance.fit(self._prepared(inputs)),
        )
        return self

    def _steps(self, samples: int) -> dict[str, Any]:
        """What ``fit`` is told of steps; a prior on weights counts less beside more."""
        if self.optimizer is not None:
            return {"optimizer": self.optimizer}
        decay = self._decay * min(1.0, 400 / samples)
        return {"optimizer": SGD(lr=self._rate, weight_decay=decay), "clip_norm": 1.0}

    @property
    def _ending(self) -> dict[str, Any]:
        """What ``fit`` is told of a run that may end before its last epoch."""
        given = self.early_stopping
        if not given:
            return {}
        share, rule = self.validation_fraction, "lie in (0, 1)"
        require(0 < share < 1, "validation_fraction", rule, share)
        stopping = given if isinstance(given, EarlyStopping) else EarlyStopping()
        return {"validation": share, "early_stopping": stopping, "keep": "best"}

    @property
    @abstractmethod
    def _loss(self) -> Loss:
        """What networks minimize; one loss per sample."""

    @property
    @abstractmethod
    def _outputs(self) -> int:
        """How many outputs a network has."""

    def _member(self, dtype: torch.dtype) -> nn.Module:
        """Return a new network, which computes in a type."""
        features, outputs = self.n_features_in_, self._outputs
        if self.model is not None:
            return self.model(features, outputs).to(dtype)
        return MLP(features, tuple(self.hidden), outputs).to(dtype)

    def _predicted(self, X: Any) -> Any:
        """Return the ensemble's prediction, whose fields depend on the loss."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=FLOATS)
        inputs = torch.tensor(X, dtype=self.ensemble_.dtype)
        return self.ensemble_.predict(inputs, raw=True)

    @property
    def _preparation(self) -> Preparation:
        preparation = self.ensemble_.preparation
        assert preparation is not None, "fit gives the ensemble its preparation"
        return preparation

    def _prepared(self, inputs: Tensor) -> Tensor:
        """Return checked rows as networks see them."""
        rows = self._preparation.tensors(inputs)
        assert isinstance(rows, Tensor), "a table is one tensor"
        return rows

    def _compare(self, held_out: Arrays) -> None:
        """Learn how far held-out rows lie from those of ``fit``.

        Networks may all be sure of rows far out, and alike: only the distance counts.
        """
        found = self.ensemble_.detectors
        assert isinstance(held_out.inputs, Tensor), "a table is one tensor"
        if found is not None and found.rows is not None:
            far = found.rows.score(self._prepared(held_out.inputs))
            scored = HeldOutScores.fit({DISTANCE: far})
            self.ensemble_.detectors = replace(found, held_out=scored)

    def _held_out(self, X: Array, targets: Tensor) -> Arrays:
        """Return checked data as the ensemble learned from such."""
        inputs = torch.tensor(X, dtype=self.ensemble_.dtype)
        return Arrays(inputs, targets, self._preparation.normalize)


def weighted_rows(
    X: Array, y: Array, sample_weight: Any
) -> tuple[Array, Array, Array | None]:
    """Return data without the samples of no weight, and the weights of the others."""
    if sample_weight is None:
        return X, y, None
    name = "sample_weight"
    weights = check_array(
        sample_weight, ensure_2d=False, dtype=X.dtype, input_name=name
    )
    require(weights.ndim == 1, name, "have shape (samples,)", weights.shape)
    check_consistent_length(X, weights)
    require(bool((weights >= 0).all()), name, "be non-negative", float(weights.min()))
    kept = weights > 0
    require(bool(kept.any()), name, "be positive for at least one sample", "zeros")
    return X[kept], y[kept], weights[kept]


def _normalization(X: Array, weights: Array | None) -> Normalize:
    """Return what gives every feature mean 0 and standard deviation 1."""
    scaler = StandardScaler().fit(X.astype(np.float64), sample_weight=weights)
    return Normalize(tuple(scaler.mean_.tolist()), tuple(scaler.scale_.tolist()))


def _factors(weights: Array | None) -> Tensor | None:
    """Return factors with a mean of one, which do what repeated samples would."""
    return None if weights is None else torch.tensor(weights / weights.mean())


def as_array(values: Tensor) -> Array:
    """Return numbers of a prediction as scikit-learn has them."""
    array: Array = values.cpu().numpy()
    return array


def _text(value: Any) -> str | None:
    """Return the text of a parameter; None of what is not read back from it."""
    plain = str(value) if isinstance(value, torch.device) else value
    text = written(plain)
    try:
        found = read_argument(text, "parameter")
    except ValueError:
        return None
    return text if isinstance(plain, str) or not isinstance(found, str) else None


def _value(name: str, text: str | None, file: Path) -> Any:
    rule = f"be given: {file} does not hold code of your own"
    require(text is not None, name, rule, text)
    return read_argument(str(text), f"{name} in {file}")


def _array(values: list[Any], kind: str, file: Path) -> NDArray[Any]:
    """Return an array of numbers or texts; objects must be texts."""
    dtype = np.dtype(kind)
    plain = dtype.kind in "biufU"
    texts = dtype.kind == "O" and all(isinstance(value, str) for value in values)
    require(plain or texts, f"learned in {file}", "be numbers or texts", kind)
    return np.array(values, dtype)
