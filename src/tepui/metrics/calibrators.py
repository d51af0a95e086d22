"""Maps of an ensemble's logits that make its probabilities mean what they say.

Each is fitted on held-out samples and then applied to others. Two work on the logits of
every member, which keep what tells members apart (:mod:`tepui.metrics.scaling`); the
third on the probabilities of the whole.

Isotonic calibration is, for each class ``c``, scikit-learn's isotonic regression of
"the label is ``c``" on the ensemble's probability of ``c``, straight between the
samples it was fitted on. Mapped probabilities are divided by their sum. Each is first
kept at ``1 / (C n)`` or above, for ``n`` samples and ``C`` classes: what never happened
in ``n`` samples is not impossible. Probabilities equal but for rounding count as one,
as in scikit-learn.

References:
    Zadrozny and Elkan 2002, "Transforming classifier scores into accurate multiclass
    probability estimates".
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, final, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tepui.core.checks import have_values, one_of, require
from tepui.metrics.chunks import (
    Rule,
    check_logits,
    dtype_of,
    ensemble_probs,
    samples_at_once,
    wide,
)
from tepui.metrics.multilabel import two_classes
from tepui.metrics.scaling import (
    factor_of,
    least_loss,
    scaled,
    summed,
    temperature,
    vector_scaling,
)

CalibrationMethod = Literal["temperature", "vector", "isotonic"]
"""One factor for all logits; a factor and an offset per class; a map per class."""

_RULES = ("probability", "logit")


class _Fitted:
    def tensors(self) -> dict[str, Tensor]:
        """Return what a file keeps, by name."""
        return {k: v for k, v in vars(self).items() if isinstance(v, Tensor)}


@final
@dataclass(frozen=True, eq=False)
class TemperatureScaling(_Fitted):
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


@final
@dataclass(frozen=True, eq=False)
class VectorScaling(_Fitted):
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


@final
@dataclass(frozen=True, eq=False)
class Isotonic(_Fitted):
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
            mapped(
                ensemble_probs(part, rule=self.rule), self.x, self.y, float(self.floor)
            )
            for part in runs
        ]
        return torch.cat(parts).log().unsqueeze(0)


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


def isotonic_maps(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the maps' points, ``(classes, points)``, padded with their last.

    Args:
        probs: Probabilities of shape ``(samples, classes)``.
        labels: Class indices of shape ``(samples,)``.

    Returns:
        Probabilities in rising order and what they are mapped to.
    """
    from sklearn.isotonic import IsotonicRegression

    answers = labels.cpu().numpy()
    maps = [
        IsotonicRegression().fit(column, answers == label)
        for label, column in enumerate(probs.T.cpu().numpy())
    ]
    longest = max(len(fitted.X_thresholds_) for fitted in maps)

    def padded(rows: Iterable[Any]) -> Tensor:
        even = [np.pad(row, (0, longest - len(row)), mode="edge") for row in rows]
        return torch.from_numpy(np.stack(even)).to(probs.device)

    x = padded(fitted.X_thresholds_ for fitted in maps)
    return x, padded(fitted.y_thresholds_ for fitted in maps)


def mapped(probs: Tensor, x: Tensor, y: Tensor, floor: float) -> Tensor:
    """Return probabilities after the maps, their rows summing to one."""
    columns = probs.T.contiguous()
    x, y = x.to(columns), y.to(columns)
    right = _first_not_below(x, columns).clamp_(1, max(1, x.shape[1] - 1))
    left = right - 1
    right = right.clamp_(max=x.shape[1] - 1)
    low, high = x.gather(1, left), x.gather(1, right)
    share = ((columns - low) / (high - low)).nan_to_num_(0.0).clamp_(0, 1)
    values = torch.lerp(y.gather(1, left), y.gather(1, right), share)
    values = values.clamp_(min=floor).T
    return values / values.sum(-1, keepdim=True)


def _first_not_below(x: Tensor, columns: Tensor) -> Tensor:
    """Return where each value would stand among the points of its row."""
    if have_values():
        return torch.searchsorted(x, columns)
    # Graphs for other programs have no search; so many points lie below.
    return (x.unsqueeze(1) < columns.unsqueeze(2)).sum(-1)


def fit_label_calibration(
    logits: Tensor,
    targets: Tensor,
    *,
    method: CalibrationMethod = "temperature",
    rule: Rule = "probability",
) -> TemperatureScaling | VectorScaling:
    """Fit a calibration of labels by the name of its method.

    Args:
        logits: Held-out logits of shape ``(members, samples, labels)``.
        targets: 1 where a label holds, else 0, ``(samples, labels)``.
        method: ``"temperature"``, one for all labels, or ``"vector"``, a factor and an
            offset for each.
        rule: How members are combined, ``"probability"`` or ``"logit"``.

    Returns:
        A value whose ``apply`` maps logits of other samples.

    Example:
        >>> logits = torch.tensor([[4.0], [4.0], [4.0], [4.0]]).unsqueeze(0)
        >>> fitted = fit_label_calibration(logits, torch.tensor([[1], [1], [1], [0]]))
        >>> fitted.apply(logits).sigmoid()[0, 0]  # three of four hold
        tensor([0.7500])
    """
    one_of("method for labels that hold or not", method, ("temperature", "vector"))
    one_of("rule", rule, ("probability", "logit"))
    two = two_classes(logits.flatten(1))
    if method == "temperature":
        return TemperatureScaling.fit(two, targets.flatten(), rule=rule)
    signs, at_once = 2.0 * targets - 1, samples_at_once(logits)

    def loss(weight: Tensor, bias: Tensor) -> tuple[float, Any]:
        runs = zip(logits.split(at_once, 1), signs.split(at_once), strict=True)
        return summed(_run_loss(*run, weight, bias, rule) for run in runs)

    center, dtype = factor_of(two, targets.flatten(), rule), dtype_of(logits)
    weight, bias = least_loss(loss, center, logits)
    return VectorScaling(weight.to(dtype), bias.to(dtype), rule)


def _run_loss(
    logits: Tensor, signs: Tensor, weight: Tensor, bias: Tensor, rule: Rule
) -> tuple[Tensor, Tensor]:
    raw = logits.mean(0, keepdim=True) if rule == "logit" else logits
    raw, sign = wide(raw), wide(signs)
    logs = F.logsigmoid(sign * scaled(raw, weight, bias))
    loss = math.log(len(raw)) - logs.logsumexp(0)
    slope = -logs.softmax(0) * sign * -torch.expm1(logs)
    by_factor, by_offset = (slope * raw).sum((0, 1)), slope.sum((0, 1))
    return loss.sum(), torch.cat([by_factor, by_offset])
