"""Maps of an ensemble's logits that make its probabilities mean what they say.

Each is fitted on held-out samples and then applied to others. Two work on the logits of
every member, which keep what tells members apart; the third on the probabilities of the
whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, final, get_args

import torch
from torch import Tensor

from tepui.core.checks import have_values, one_of, require
from tepui.metrics.aggregate import ensemble_probs
from tepui.metrics.chunks import Rule, check_logits, dtype_of, samples_at_once
from tepui.metrics.isotonic import isotonic_maps, mapped
from tepui.metrics.temperature import temperature
from tepui.metrics.vector_scaling import scaled, vector_scaling

CalibrationMethod = Literal["temperature", "vector", "isotonic"]
"""One factor for all logits; a factor and an offset per class; a map per class."""

_RULES = ("probability", "logit")


@final
@dataclass(frozen=True, eq=False)
class TemperatureScaling:
    """All logits divided by one number, see :func:`temperature`.

    Attributes:
        divisor: The temperature, a scalar.
        rule: How members are combined.
    """

    method: ClassVar[CalibrationMethod] = "temperature"
    divisor: Tensor
    rule: Rule = "probability"

    @classmethod
    def fit(cls, logits: Tensor, labels: Tensor, *, rule: Rule = "probability") -> Self:
        """Find the temperature of the least loss.

        Args:
            logits: Held-out logits of shape ``(members, samples, classes)``.
            labels: Class indices of shape ``(samples,)``.
            rule: How members are combined, ``"probability"`` or ``"logit"``.

        Returns:
            The calibration.

        Example:
            >>> logits = torch.tensor([[[4.0, 0.0]]]).expand(1, 4, 2)
            >>> fitted = TemperatureScaling.fit(logits, torch.tensor([0, 0, 0, 1]))
            >>> fitted.apply(logits).softmax(-1)[0, 0]  # three of four are right
            tensor([0.7500, 0.2500])
        """
        return cls(temperature(logits, labels, rule=rule), rule)

    def apply(self, logits: Tensor) -> Tensor:
        """Return calibrated logits.

        Args:
            logits: Logits of shape ``(members, samples, classes)``.

        Returns:
            Logits of the same shape.
        """
        return logits / self.divisor.to(logits)

    def tensors(self) -> dict[str, Tensor]:
        """Return what a file keeps, by name."""
        return {"divisor": self.divisor}


@final
@dataclass(frozen=True, eq=False)
class VectorScaling:
    """Logits times a factor plus an offset, both of their class or label.

    The pair of least loss on held-out samples, where every class is pulled towards one
    temperature as weakly as by one sample (Guo et al. 2017, "On calibration of modern
    neural networks").

    Attributes:
        weight: The factors, ``(classes,)``.
        bias: The offsets, ``(classes,)``.
        rule: How members are combined.
    """

    method: ClassVar[CalibrationMethod] = "vector"
    weight: Tensor
    bias: Tensor
    rule: Rule = "probability"

    @classmethod
    def fit(cls, logits: Tensor, labels: Tensor, *, rule: Rule = "probability") -> Self:
        """Find factors and offsets of the least loss.

        Args:
            logits: Held-out logits of shape ``(members, samples, classes)``.
            labels: Class indices of shape ``(samples,)``.
            rule: How members are combined, ``"probability"`` or ``"logit"``.

        Returns:
            The calibration.

        Example:
            >>> logits = torch.zeros(1, 4, 2)
            >>> fitted = VectorScaling.fit(logits, torch.tensor([0, 0, 0, 1]))
            >>> bool(fitted.bias[0] > fitted.bias[1])  # class 0 occurs more often
            True
        """
        one_of("rule", rule, _RULES)
        weight, bias = vector_scaling(logits, labels, rule)
        dtype = dtype_of(logits)
        return cls(weight.to(dtype), bias.to(dtype), rule)

    def apply(self, logits: Tensor) -> Tensor:
        """Return calibrated logits.

        Args:
            logits: Logits of shape ``(members, samples, classes)``.

        Returns:
            Logits of the same shape.
        """
        _check_classes(logits, len(self.weight))
        return scaled(logits, self.weight, self.bias)

    def tensors(self) -> dict[str, Tensor]:
        """Return what a file keeps, by name."""
        return {"weight": self.weight, "bias": self.bias}


@final
@dataclass(frozen=True, eq=False)
class Isotonic:
    """A rising map of each class's probability, and rows divided by their sum.

    Scikit-learn's isotonic regression, class by class, of the ensemble's probabilities
    (Zadrozny and Elkan 2002, "Transforming classifier scores into accurate multiclass
    probability estimates"). No probability falls below ``floor`` before rows are
    divided. Members have no calibrated logits of their own.

    Attributes:
        x: Probabilities in rising order, ``(classes, points)``.
        y: What they are mapped to; straight lines in between.
        floor: The least that a probability is mapped to, a scalar.
        rule: How members are combined.
    """

    method: ClassVar[CalibrationMethod] = "isotonic"
    x: Tensor
    y: Tensor
    floor: Tensor
    rule: Rule = "probability"

    def __repr__(self) -> str:
        classes, points = self.x.shape
        return f"Isotonic({classes} classes, {points} points, rule={self.rule!r})"

    @classmethod
    def fit(cls, logits: Tensor, labels: Tensor, *, rule: Rule = "probability") -> Self:
        """Find the map of each class.

        Args:
            logits: Held-out logits of shape ``(members, samples, classes)``.
            labels: Class indices of shape ``(samples,)``.
            rule: How members are combined, ``"probability"`` or ``"logit"``.

        Returns:
            The calibration.

        Example:
            >>> logits = torch.tensor([[[4.0, 0.0]]]).expand(1, 4, 2)
            >>> fitted = Isotonic.fit(logits, torch.tensor([0, 0, 0, 1]))
            >>> fitted.apply(logits).softmax(-1)[0, 0]  # three of four are right
            tensor([0.7500, 0.2500])
        """
        one_of("rule", rule, _RULES)
        check_logits(logits, labels)
        _, samples, classes = logits.shape
        x, y = isotonic_maps(ensemble_probs(logits, rule=rule), labels)
        dtype = dtype_of(logits)
        floor = torch.tensor(1 / (samples * classes), dtype=dtype, device=x.device)
        return cls(x.to(dtype), y.to(dtype), floor, rule)

    def apply(self, logits: Tensor) -> Tensor:
        """Return the logarithms of calibrated probabilities, as of one member.

        Args:
            logits: Logits of shape ``(members, samples, classes)``.

        Returns:
            Shape ``(1, samples, classes)``.
        """
        _check_classes(logits, len(self.x))
        runs = logits.split(samples_at_once(logits), 1) if have_values() else [logits]
        parts = [
            mapped(ensemble_probs(part, rule=self.rule), self.x, self.y, self.least)
            for part in runs
        ]
        return torch.cat(parts).log().unsqueeze(0)

    @property
    def least(self) -> float:
        """The floor as a number."""
        return float(self.floor)

    def tensors(self) -> dict[str, Tensor]:
        """Return what a file keeps, by name."""
        return {"x": self.x, "y": self.y, "floor": self.floor}


Calibration = TemperatureScaling | VectorScaling | Isotonic
"""A map of an ensemble's logits, fitted on held-out samples."""

_METHODS: dict[str, type[Calibration]] = {
    kind.method: kind for kind in (TemperatureScaling, VectorScaling, Isotonic)
}


def fit_calibration(
    logits: Tensor,
    labels: Tensor,
    *,
    method: CalibrationMethod = "temperature",
    rule: Rule = "probability",
) -> Calibration:
    """Fit a calibration by the name of its method.

    Args:
        logits: Held-out logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        method: ``"temperature"``, ``"vector"`` or ``"isotonic"``.
        rule: How members are combined, ``"probability"`` or ``"logit"``.

    Returns:
        A value whose ``apply`` maps logits of other samples.

    Example:
        >>> logits, labels = torch.randn(2, 50, 3), torch.arange(50) % 3
        >>> fitted = fit_calibration(logits, labels, method="vector")
        >>> fitted.apply(logits).shape
        torch.Size([2, 50, 3])
    """
    one_of("method", method, get_args(CalibrationMethod))
    return _METHODS[method].fit(logits, labels, rule=rule)


def stored_calibration(
    document: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> Calibration:
    """Return the calibration that a file describes."""
    method, rule = document["method"], document["rule"]
    one_of("method", method, get_args(CalibrationMethod))
    one_of("rule", rule, _RULES)
    return _METHODS[method](**tensors, rule=rule)


def _check_classes(logits: Tensor, classes: int) -> None:
    rule = f"have the {classes} classes or labels that the calibration was fitted on"
    require(logits.shape[-1] == classes, "logits", rule, tuple(logits.shape))
