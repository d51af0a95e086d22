"""Vector scaling: a factor and an offset for each class, shared by all members.

Calibrated logits are ``w_c f_mc + b_c``. The negative log-likelihood of held-out
samples is minimized by L-BFGS, together with a pull towards one temperature ``T`` for
all classes, ``(|w - 1/T|² + |b|²) / 2n``: as weak as one sample, it decides only what
the samples leave open, such as the offset of a class that never occurs.

With ``r_m = P_my / Σ_l P_ly`` the share of a member in the probability of the label,
the derivative of one sample's loss by a calibrated logit is ``r_m (P_mc - 1[c = y])``.

References:
    Guo et al. 2017, "On calibration of modern neural networks".
"""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tepui.metrics.chunks import Chunk, Rule, check_logits, chunks_of, wide
from tepui.metrics.temperature import temperature

_MANY = 2**25
_STEPS, _STEPS_OF_MANY = 200, 8


def vector_scaling(logits: Tensor, labels: Tensor, rule: Rule) -> tuple[Tensor, Tensor]:
    """Return factors and offsets, each ``(classes,)``, for which the loss is least.

    Of many logits, classes are told apart by the members' mean, in few steps; one
    temperature more then makes up for how members are combined.
    """
    check_logits(logits, labels, rule=rule)
    if logits.numel() <= _MANY or len(logits) == 1:
        return _fitted(logits, labels, rule)
    weight, bias = _fitted(logits.mean(0, keepdim=True), labels, "logit")
    if rule == "logit":
        return weight, bias
    factor = factor_of(scaled(logits[:, ::8], weight, bias), labels[::8], rule)
    return factor * weight, factor * bias


def _fitted(logits: Tensor, labels: Tensor, rule: Rule) -> tuple[Tensor, Tensor]:
    def loss(weight: Tensor, bias: Tensor) -> tuple[float, Any]:
        return _loss(weight, bias, logits, labels, rule)

    return least_loss(loss, factor_of(logits, labels, rule), logits)


def factor_of(logits: Tensor, labels: Tensor, rule: Rule) -> float:
    """Return what a temperature multiplies logits with."""
    with warnings.catch_warnings():
        # At a bound of the temperature the classes' own factors still have a best.
        warnings.simplefilter("ignore", UserWarning)
        return 1 / float(temperature(logits, labels, rule=rule))


def scaled(logits: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return calibrated logits."""
    return torch.addcmul(bias.to(logits), logits, weight.to(logits))


def least_loss(
    loss: Callable[[Tensor, Tensor], tuple[float, Any]], factor: float, logits: Tensor
) -> tuple[Tensor, Tensor]:
    """Return factors and offsets of the least loss, pulled towards one factor.

    The loss is that of all samples, with its derivatives.
    """
    from scipy.optimize import minimize

    _, samples, classes = logits.shape
    center = np.repeat([factor, 0.0], classes)

    def pulled(at: Any) -> tuple[float, Any]:
        total, slope = loss(*_split(at, logits))
        offset = at - center
        value = (total + offset @ offset / 2) / samples
        return value, (slope + offset) / samples

    steps = _STEPS if logits.numel() <= _MANY else _STEPS_OF_MANY
    # The loss of logits in float32 is known to about seven digits.
    exact = logits.dtype == torch.float64
    options = {"maxiter": steps, "gtol": 1e-9, "ftol": 1e-14 if exact else 1e-9}
    found = minimize(pulled, center, jac=True, method="L-BFGS-B", options=options)
    return _split(found.x, logits)


def _loss(
    weight: Tensor, bias: Tensor, logits: Tensor, labels: Tensor, rule: Rule
) -> tuple[float, Any]:
    """Return the loss of all samples and its derivatives."""
    parts = [
        _chunk_loss(chunk, weight, bias, rule) for chunk in chunks_of(logits, labels)
    ]
    total, slope = (sum(column) for column in zip(*parts, strict=True))
    return float(total), slope.cpu().numpy()


def _chunk_loss(
    chunk: Chunk, weight: Tensor, bias: Tensor, rule: Rule
) -> tuple[Tensor, Tensor]:
    raw = chunk.logits.mean(0, keepdim=True) if rule == "logit" else chunk.logits
    values = scaled(raw, weight, bias).log_softmax(-1)
    index = chunk.labels.expand(len(raw), -1).unsqueeze(-1)
    of_label = values.gather(-1, index)
    loss = math.log(len(raw)) - of_label[..., 0].logsumexp(0)
    share = of_label.softmax(0)
    # As matrix products, so that no further copy of the logits is made.
    rows, probs = share.flatten(), values.exp_().flatten(0, 1)
    own = share * raw.gather(-1, index)
    by_offset = _less(rows @ probs, share, index)
    by_factor = _less(rows @ probs.mul_(raw.flatten(0, 1)), own, index)
    return wide(loss).sum(), torch.cat([by_factor, by_offset])


def _less(total: Tensor, shares: Tensor, index: Tensor) -> Tensor:
    """Return sums by class, less the shares of labels."""
    counted = torch.zeros_like(wide(total))
    counted.index_add_(0, index.flatten(), wide(shares).flatten())
    return wide(total) - counted


def _split(point: Any, like: Tensor) -> tuple[Tensor, Tensor]:
    weight, bias = torch.from_numpy(np.asarray(point)).to(like.device).chunk(2)
    return weight, bias
