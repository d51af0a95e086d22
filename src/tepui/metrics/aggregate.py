"""From the members' logits to one prediction.

Everything that needs a softmax works on runs of samples, so that beside the result only
a few hundred megabytes are in use whatever the number of samples, and 16-bit logits are
never copied whole into 32 bits.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from tepui.checks import labels_match, logits_shape, one_of, require

Rule = Literal["probability", "logit", "vote"]
"""Mean of the probabilities, softmax of the mean logits, or share of the votes."""

_LOGITS_AT_ONCE = 2**24


def ensemble_probs(logits: Tensor, rule: Rule = "probability") -> Tensor:
    """Probabilities of the ensemble.

    ``probability``: ``(1/M) Σ_m softmax(f_m)``; ``logit``: ``softmax((1/M) Σ_m f_m)``;
    ``vote``: the share of members whose largest logit is the class.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        rule: How members are joined.

    Returns:
        Probabilities of shape ``(samples, classes)``, in [0, 1], rows summing to one.

    Raises:
        ValueError: If the logits break their rules or the rule is unknown.

    Example:
        >>> logits = torch.tensor([[[0.0, 9.0]], [[1.0, 0.0]], [[1.0, 0.0]]])
        >>> ensemble_probs(logits)
        tensor([[0.4874, 0.5126]])
        >>> ensemble_probs(logits, "vote")
        tensor([[0.6667, 0.3333]])
    """
    _check(logits, rule=rule)
    return _map_samples(partial(_probs, rule=rule), logits)


def ensemble_log_probs(logits: Tensor, rule: Rule = "probability") -> Tensor:
    """Logarithms of the probabilities of the ensemble.

    For ``probability`` it is ``logsumexp_m(log_softmax(f_m)) - log M``, which stays
    finite where the probabilities themselves underflow to zero.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        rule: How members are joined.

    Returns:
        Log-probabilities of shape ``(samples, classes)``, at most zero; minus infinity
        only for ``vote``, where a class has no vote.

    Raises:
        ValueError: If the logits break their rules or the rule is unknown.

    Example:
        >>> ensemble_log_probs(torch.tensor([[[0.0, 400.0]], [[0.0, 400.0]]]))
        tensor([[-400.,    0.]])
    """
    _check(logits, rule=rule)
    return _map_samples(partial(_log_probs, rule=rule), logits)


def predictions(logits: Tensor) -> Tensor:
    """Class that each member predicts; of equal logits the first class wins.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.

    Returns:
        Class indices of shape ``(members, samples)``.

    Raises:
        ValueError: If the logits break their rules.

    Example:
        >>> predictions(torch.tensor([[[0.0, 9.0]], [[1.0, 0.0]]]))
        tensor([[1],
                [0]])
    """
    _check(logits)
    return logits.argmax(-1)


def ensemble_predictions(logits: Tensor, rule: Rule = "probability") -> Tensor:
    """Class that the ensemble predicts: the most probable one.

    Classes with equally many votes are told apart by the mean of the members'
    probabilities; what is still equal then goes to the first class.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        rule: How members are joined.

    Returns:
        Class indices of shape ``(samples,)``.

    Raises:
        ValueError: If the logits break their rules or the rule is unknown.

    Example:
        >>> logits = torch.tensor([[[0.0, 9.0]], [[1.0, 0.0]], [[1.0, 0.0]]])
        >>> ensemble_predictions(logits), ensemble_predictions(logits, "vote")
        (tensor([1]), tensor([0]))
        >>> ensemble_predictions(logits[:2], "vote")  # one vote each
        tensor([1])
    """
    _check(logits, rule=rule)
    return _map_samples(lambda part: _top(part, rule)[1], logits)


def _check(
    logits: Tensor,
    labels: Tensor | None = None,
    *,
    rule: str = "probability",
    min_members: int = 1,
) -> None:
    logits_shape(logits, min_members=min_members)
    low, high = (float(bound) for bound in torch.aminmax(logits.detach()))
    require(
        math.isfinite(low) and math.isfinite(high),
        "logits",
        "be finite (a large negative number stands for an impossible class)",
        (low, high),
    )
    one_of("rule", rule, get_args(Rule))
    if labels is not None:
        labels_match(labels, logits)


def _dtype(logits: Tensor) -> torch.dtype:
    return torch.float64 if logits.dtype == torch.float64 else torch.float32


def _parts(logits: Tensor) -> Iterator[Tensor]:
    """Yield runs of samples, without gradient, in at least 32 bits."""
    samples = max(1, _LOGITS_AT_ONCE // (logits.shape[0] * logits.shape[2]))
    for part in torch.split(logits.detach(), samples, dim=1):
        yield part.to(_dtype(logits))


def _map_samples(function: Callable[[Tensor], Tensor], logits: Tensor) -> Tensor:
    return torch.cat([function(part) for part in _parts(logits)])


def _probs(part: Tensor, rule: Rule) -> Tensor:
    if rule == "vote":
        votes = F.one_hot(part.argmax(-1), part.shape[-1]).sum(0)
        return votes.to(part.dtype) / len(part)
    if rule == "logit":
        return part.mean(0).softmax(-1)
    return part.softmax(-1).mean(0)


def _log_probs(part: Tensor, rule: Rule) -> Tensor:
    if rule == "vote":
        return _probs(part, rule).log()
    if rule == "logit":
        return part.mean(0).log_softmax(-1)
    return part.log_softmax(-1).logsumexp(0) - math.log(len(part))


def _top(part: Tensor, rule: Rule) -> tuple[Tensor, Tensor]:
    """Return the largest probability of each sample and the class it belongs to."""
    probs = _probs(part, rule)
    confidence, predicted = probs.max(-1)
    if rule == "vote":
        beaten = probs < confidence.unsqueeze(-1)
        predicted = _probs(part, "probability").masked_fill(beaten, -1).argmax(-1)
    return confidence, predicted


def _share(true: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the share of true entries on the last axis, counted in integers."""
    return true.sum(-1).to(dtype) / true.shape[-1]
