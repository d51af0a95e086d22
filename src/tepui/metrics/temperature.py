"""Temperature scaling: one number that mends over- or underconfident logits.

The negative log-likelihood of held-out logits divided by ``T`` is minimized over the
inverse temperature ``β = 1/T`` by Newton steps, kept inside a bracket of the sign of
its derivative. Each step reads the logits once. With ``g_m = f_my - E_m[f]`` and
``r_m = P_my / Σ_l P_ly`` the share of a member in the probability of the label, the
derivatives of one sample's loss are::

    loss'  = -Σ_m r_m g_m
    loss'' = -Σ_m r_m (g_m² - Var_m[f]) + (Σ_m r_m g_m)²

where ``E_m`` and ``Var_m`` are taken over classes with the member's probabilities.
Where few samples are wrong, :mod:`few_mistakes` limits how far logits are sharpened.

References:
    Guo et al. 2017, "On calibration of modern neural networks".
"""

import math

import torch
from torch import Tensor

from tepui.core.checks import one_of
from tepui.core.warning import warn
from tepui.metrics.chunks import Chunk, Rule, check_logits, chunks_of, dtype_of, wide
from tepui.metrics.few_mistakes import support_of, supported_inverse

_LOWEST, _HIGHEST = 0.01, 100.0
_STEPS = 60
_MANY = 16_000
_FAR = 2.0
_TOO_SMALL = "the logits differ too little between classes; check training"
_TOO_UNSURE = (
    "the logits tell nothing about the held-out labels, and every confidence comes out "
    "near 1 / classes; check labels and training"
)


def temperature(
    logits: Tensor, labels: Tensor, *, rule: Rule = "probability"
) -> Tensor:
    """Temperature ``T`` for which ``logits / T`` have the least :func:`nll`.

    Fit it on held-out samples and divide the logits of others by it. All members share
    it. Above 1 the ensemble was too sure, below 1 not sure enough. Member predictions
    never change; the ensemble's can where members are joined by probability.

    Where fewer than ten samples are wrong, a temperature below 1 is fitted with one
    right and one wrong sample more, spread over all as the ensemble itself expects them
    (Laplace's rule of succession); where that doubles it or more, a warning says so.

    Args:
        logits: Held-out logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        rule: How members are combined: ``"probability"`` or ``"logit"``; a vote has no
            temperature.

    Returns:
        A scalar in [0.01, 100]; at a bound, with a warning, where the loss has no
        minimum between them.

    Example:
        >>> logits = torch.tensor([[[4.0, 0.0]]]).expand(1, 4, 2)
        >>> best = temperature(logits, torch.tensor([0, 0, 0, 1]))
        >>> (logits / best).softmax(-1)[0, 0]  # three of four are right
        tensor([0.7500, 0.2500])
    """
    one_of("rule", rule, ("probability", "logit"))
    check_logits(logits, labels)
    best = found = _best_inverse(logits, labels, rule)
    support = support_of(logits, labels, rule) if best > 1 else None
    if support is not None:
        found = supported_inverse(logits, labels, rule, best)
    if best / found > _FAR:
        said = f"temperature is {1 / found:.3g} and not {1 / best:.3g}: {support}"
        warn(said)
    elif not 1.001 * _LOWEST < 1 / found < _HIGHEST / 1.001:
        reason = _TOO_SMALL if found > 1 else _TOO_UNSURE
        said = f"temperature is at its bound, {1 / found:.3g}: {reason}"
        warn(said)
    return logits.new_tensor(1 / found, dtype=dtype_of(logits))


def _best_inverse(logits: Tensor, labels: Tensor, rule: Rule) -> float:
    """Return the best inverse temperature between the bounds."""
    low, high, last = 1 / _HIGHEST, 1 / _LOWEST, math.inf
    # Many samples start from the best of every sixteenth of them.
    few = len(labels) < _MANY
    beta = 1.0 if few else _best_inverse(logits[:, ::16], labels[::16], rule)
    # Newton squares the error: after a step this small, what is left is far smaller.
    small = 1e-5 if logits.dtype == torch.float64 else 1e-3
    for _ in range(_STEPS):
        slope, bend = _derivatives(logits, labels, rule, beta)
        if slope == 0:
            break
        low, high = (low, beta) if slope > 0 else (beta, high)
        move, enough = -slope / bend if bend > 0 else math.inf, small
        if not (low < beta + move < high and abs(move) < 0.9 * last):
            # No curve to follow, or one that never ends: halve the bracket, in ratio.
            move, enough = math.sqrt(low * high) - beta, small**2
        beta, last = beta + move, abs(move)
        if last <= enough * beta:
            break
    return beta


def _derivatives(
    logits: Tensor, labels: Tensor, rule: Rule, beta: float
) -> tuple[float, float]:
    """Return two derivatives of the mean loss by the inverse temperature."""
    total = torch.stack(
        [_chunk_derivatives(chunk, rule, beta) for chunk in chunks_of(logits, labels)]
    ).sum(0)
    slope, bend = (total / len(labels)).tolist()
    return slope, bend


def _chunk_derivatives(chunk: Chunk, rule: Rule, beta: float) -> Tensor:
    # From the largest logit down: no overflow, and squares that do not cancel.
    values = chunk.below_largest(rule)
    weights = (beta * values).exp_()
    total = weights.sum(-1)
    weights *= values
    mean = weights.sum(-1) / total
    weights *= values
    spread = weights.sum(-1) / total - mean.square()
    index = chunk.labels.expand(len(values), -1).unsqueeze(-1)
    label_values = values.gather(-1, index)[:, :, 0]
    lowest = torch.finfo(values.dtype).min
    share = ((beta * label_values).clamp_(min=lowest) - total.log()).softmax(0)
    gain = label_values - mean
    slope = -(share * gain).sum(0)
    bend = -(share * (gain.square() - spread)).sum(0) + slope.square()
    return wide(torch.stack([slope, bend])).sum(-1)
