"""Calibration of labels that hold or not: one temperature, or a scaling of each.

A label is a choice between two classes with the logits 0 and ``z``. One temperature for
all labels is that of these choices. A factor and an offset of each label make its logit
``w z + b``; they minimize the loss of held-out samples as :mod:`vector_scaling` does,
with the same pull towards one temperature, label by label as weak as one sample.

With ``s = 1`` where a label holds and ``-1`` where it does not, ``P_m = σ(s (w z_m +
b))`` and ``r_m = P_m / Σ_l P_l``, the derivative of one sample's loss by a member's
calibrated logit is ``-r_m s (1 - P_m)``.

References:
    Platt 1999, "Probabilistic outputs for support vector machines".
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tepui.core.checks import one_of
from tepui.metrics.calibrators import (
    CalibrationMethod,
    TemperatureScaling,
    VectorScaling,
)
from tepui.metrics.chunks import Rule, dtype_of, samples_at_once, wide
from tepui.metrics.multilabel import two_classes
from tepui.metrics.vector_scaling import factor_of, least_loss, scaled


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
    center = factor_of(two, targets.flatten(), rule)
    weight, bias = label_scaling(logits, targets, rule, center)
    dtype = dtype_of(logits)
    return VectorScaling(weight.to(dtype), bias.to(dtype), rule)


def label_scaling(
    logits: Tensor, targets: Tensor, rule: Rule, center: float
) -> tuple[Tensor, Tensor]:
    """Return factors and offsets, each ``(labels,)``, for which the loss is least."""
    signs = 2.0 * targets - 1

    def loss(weight: Tensor, bias: Tensor) -> tuple[float, Any]:
        at_once = samples_at_once(logits)
        runs = zip(logits.split(at_once, 1), signs.split(at_once), strict=True)
        parts = [_run_loss(*run, weight, bias, rule) for run in runs]
        total, slope = (sum(column) for column in zip(*parts, strict=True))
        return float(total), slope.cpu().numpy()

    return least_loss(loss, center, logits)


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
