"""Temperature and vector scaling: factors and offsets that mend the logits' confidence.

**A temperature.** The negative log-likelihood of held-out logits divided by ``T`` is
minimized over the inverse temperature ``β = 1/T`` by Newton steps, kept inside a
bracket of the sign of its derivative. Each step reads the logits once. With
``g_m = f_my - E_m[f]`` and ``r_m = P_my / Σ_l P_ly`` the share of a member in the
probability of the label, the derivatives of one sample's loss are::

    loss'  = -Σ_m r_m g_m
    loss'' = -Σ_m r_m (g_m² - Var_m[f]) + (Σ_m r_m g_m)²

where ``E_m`` and ``Var_m`` are taken over classes with the member's probabilities.

**Few mistakes.** The loss of samples that are all right falls without end as their
logits grow, and a mistake or two hardly stop it. Laplace's rule of succession imagines
two samples more, one right and one wrong: with ``k`` of ``n`` wrong, it expects
``(n - k + 1) / (n + 2)`` of further ones right. Here both are spread over all samples
as the uncalibrated ensemble itself expects them: with its prediction ``ŷ_i``, a class
``c`` of sample ``i`` gets the weight ``P_ic / Σ_j P_jŷ`` if it is the prediction, and
``P_ic / Σ_j (1 - P_jŷ)`` if not. From ten mistakes on, the rates with and without the
two lie within a third of a standard error of each other, and nothing is imagined.

**A vector.** Calibrated logits are ``w_c f_mc + b_c``. The loss is minimized by
L-BFGS, together with a pull towards one temperature ``T`` for all classes,
``(|w - 1/T|² + |b|²) / 2n``: as weak as one sample, it decides only what the samples
leave open, such as the offset of a class that never occurs. The derivative of one
sample's loss by a calibrated logit is ``r_m (P_mc - 1[c = y])``.

**Labels that hold or not.** A label is a choice between two classes with the logits 0
and ``z``; a factor and an offset of each label make its logit ``w z + b``, with the
same pull, label by label as weak as one sample. With ``s = 1`` where a label holds and
``-1`` where it does not, ``P_m = σ(s (w z_m + b))`` and ``r_m = P_m / Σ_l P_l``, the
derivative of one sample's loss by a member's calibrated logit is ``-r_m s (1 - P_m)``.

References:
    Guo et al. 2017, "On calibration of modern neural networks"; Platt 1999,
    "Probabilistic outputs for support vector machines".
"""

import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tepui.core.checks import one_of
from tepui.core.warning import warn
from tepui.metrics.chunks import Chunk, Rule, check_logits, chunks_of, dtype_of, wide

_LOWEST, _HIGHEST = 0.01, 100.0
_STEPS = 60
_MANY = 16_000
_FAR = 2.0


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
    wrong, samples = ENOUGH, len(labels)
    if best > 1:
        wrong = _mistakes(logits, labels, rule)
    if wrong < ENOUGH:
        found = supported_inverse(logits, labels, rule, best)
    if best / found > _FAR:
        accuracy = (samples - wrong + 1) / (samples + 2)
        warn(
            f"temperature is {1 / found:.3g} and not {1 / best:.3g}: {wrong or 'none'}"
            f" of {samples} held-out samples {'is' if wrong < 2 else 'are'} wrong, "
            f"which vouches for an accuracy of {accuracy:.3g} and no more; hold out "
            "more samples"
        )
    elif not 1.001 * _LOWEST < 1 / found < _HIGHEST / 1.001:
        warn(f"temperature is at its bound, {1 / found:.3g}: check labels and training")
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


ENOUGH = 10
_CLOSE = 1e-7
_LEAST = 1e-30


def _mistakes(logits: Tensor, labels: Tensor, rule: Rule) -> int:
    """Return how many samples are wrong, or from where on that is enough."""
    mistakes = 0
    for chunk in chunks_of(logits, labels):
        mistakes += int((~chunk.correct(rule)).sum())
        if mistakes >= ENOUGH:
            break
    return mistakes


def supported_inverse(logits: Tensor, labels: Tensor, rule: Rule, best: float) -> float:
    """Return the inverse temperature of the least loss with two samples imagined.

    Args:
        logits: Held-out logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        rule: How members are combined.
        best: The inverse temperature of the least loss without them, above 1.

    Returns:
        A number between 1 and the best.
    """
    right = _expected_right(logits, rule)
    wrong = max(len(labels) - right, _LEAST)
    chunks = chunks_of(logits, labels)
    weights = [_weights(chunk, rule, right, wrong) for chunk in chunks]
    low, high = 1.0, best
    if _slope(logits, weights, rule, high) <= 0:
        return high
    for _ in range(_STEPS):
        if high / low < 1 + _CLOSE:
            break
        middle = math.sqrt(low * high)
        rising = _slope(logits, weights, rule, middle) > 0
        low, high = (low, middle) if rising else (middle, high)
    return low


def _expected_right(logits: Tensor, rule: Rule) -> float:
    """Return how many predictions the ensemble expects to be right."""
    tops = [wide(chunk.ensemble_top(rule)[0]).sum() for chunk in chunks_of(logits)]
    return float(torch.stack(tops).sum())


def _slope(logits: Tensor, weights: list[Tensor], rule: Rule, beta: float) -> float:
    """Return the derivative of the loss by the inverse temperature."""
    parts = [
        (weight * _class_slopes(chunk, rule, beta)).sum()
        for weight, chunk in zip(weights, chunks_of(logits), strict=True)
    ]
    return float(torch.stack(parts).sum())


def _weights(chunk: Chunk, rule: Rule, right: float, wrong: float) -> Tensor:
    """Return what every class counts of every sample, ``(samples, classes)``."""
    confidence, predicted = chunk.ensemble_top(rule)
    weights = wide(chunk.ensemble_probs(rule)) / wrong
    weights.scatter_(1, predicted.unsqueeze(1), wide(confidence / right).unsqueeze(1))
    return weights.scatter_add_(
        1, chunk.labels.unsqueeze(1), torch.ones_like(weights[:, :1])
    )


def _class_slopes(chunk: Chunk, rule: Rule, beta: float) -> Tensor:
    """Return the derivative of the loss of every class, were it the label."""
    values = chunk.below_largest(rule)
    scaled = Chunk(beta * values)
    gain = values - (scaled.probs * values).sum(-1, keepdim=True)
    return wide(-(scaled.log_probs.softmax(0) * gain).sum(0))


_MANY_LOGITS = 2**25
_FIT_STEPS, _FIT_STEPS_OF_MANY = 200, 8


def vector_scaling(logits: Tensor, labels: Tensor, rule: Rule) -> tuple[Tensor, Tensor]:
    """Return factors and offsets, each ``(classes,)``, for which the loss is least.

    Of many logits, classes are told apart by the members' mean, in few steps; one
    temperature more then makes up for how members are combined.
    """
    check_logits(logits, labels, rule=rule)
    if logits.numel() <= _MANY_LOGITS or len(logits) == 1:
        return _fitted(logits, labels, rule)
    weight, bias = _fitted(logits.mean(0, keepdim=True), labels, "logit")
    if rule == "logit":
        return weight, bias
    factor = factor_of(scaled(logits[:, ::8], weight, bias), labels[::8], rule)
    return factor * weight, factor * bias


def _fitted(logits: Tensor, labels: Tensor, rule: Rule) -> tuple[Tensor, Tensor]:
    def loss(weight: Tensor, bias: Tensor) -> tuple[float, Any]:
        runs = chunks_of(logits, labels)
        return summed(_chunk_loss(chunk, weight, bias, rule) for chunk in runs)

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

    steps = _FIT_STEPS if logits.numel() <= _MANY_LOGITS else _FIT_STEPS_OF_MANY
    # The loss of logits in float32 is known to about seven digits.
    exact = logits.dtype == torch.float64
    options = {"maxiter": steps, "gtol": 1e-9, "ftol": 1e-14 if exact else 1e-9}
    found = minimize(pulled, center, jac=True, method="L-BFGS-B", options=options)
    return _split(found.x, logits)


def summed(parts: Iterable[tuple[Tensor, Tensor]]) -> tuple[float, Any]:
    """Return the loss of all samples and its derivatives, of those of runs."""
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
