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

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tepui.metrics.chunks import Chunk, Rule, check_logits, chunks_of, wide
from tepui.metrics.temperature import temperature

_MANY = 16_000
_STEPS = {"few": 200, "many": 8}


def vector_scaling(logits: Tensor, labels: Tensor, rule: Rule) -> tuple[Tensor, Tensor]:
    """Return factors and offsets, each ``(classes,)``, for which the loss is least.

    Of many samples, few passes over all of them follow the best of every eighth.
    """
    check_logits(logits, labels, rule=rule)
    with warnings.catch_warnings():
        # At a bound of the temperature the classes' own factors still have a best.
        warnings.simplefilter("ignore", UserWarning)
        start = 1 / float(temperature(logits, labels, rule=rule))
    classes = logits.shape[-1]
    point = np.concatenate([np.full(classes, start), np.zeros(classes)])
    if len(labels) < _MANY:
        return _split(_minimum(point, start, logits, labels, rule, "few"), logits)
    part = logits[:, ::8], labels[::8]
    point = _minimum(point, start, *part, rule, "many")
    return _split(_minimum(point, start, logits, labels, rule, "many"), logits)


def scaled(logits: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return calibrated logits."""
    return torch.addcmul(bias.to(logits), logits, weight.to(logits))


def _minimum(
    point: Any, center: float, logits: Tensor, labels: Tensor, rule: Rule, many: str
) -> Any:
    from scipy.optimize import minimize

    classes, samples = logits.shape[-1], len(labels)
    pulled_to = np.concatenate([np.full(classes, center), np.zeros(classes)])

    def loss(at: Any) -> tuple[float, Any]:
        total, slope = _loss(*_split(at, logits), logits, labels, rule)
        offset = at - pulled_to
        value = (total + offset @ offset / 2) / samples
        return value, (slope + offset) / samples

    # The loss of logits in float32 is known to about seven digits.
    exact = logits.dtype == torch.float64
    options = {"maxiter": _STEPS[many], "gtol": 1e-9, "ftol": 1e-14 if exact else 1e-9}
    return minimize(loss, point, jac=True, method="L-BFGS-B", options=options).x


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
    slopes = scaled(raw, weight, bias)
    slopes -= slopes.logsumexp(-1, keepdim=True)
    index = chunk.labels.expand(len(raw), -1).unsqueeze(-1)
    of_label = slopes.gather(-1, index)
    share = of_label.softmax(0)
    loss = -wide(of_label.logsumexp(0)).sum()
    slopes.exp_().scatter_add_(-1, index, -torch.ones_like(of_label))
    slopes *= share
    by_offset = wide(slopes.sum((0, 1)))
    by_factor = wide(slopes.mul_(raw).sum((0, 1)))
    return loss, torch.cat([by_factor, by_offset])


def _split(point: Any, like: Tensor) -> tuple[Tensor, Tensor]:
    weight, bias = torch.from_numpy(np.asarray(point)).to(like.device).chunk(2)
    return weight, bias
