"""From the members' logits to one prediction."""

import torch
from torch import Tensor

from tepui.metrics.chunks import Rule, check_logits, chunks_of, map_samples


def ensemble_probs(logits: Tensor, *, rule: Rule = "probability") -> Tensor:
    """Probabilities of the ensemble.

    ``probability``: ``(1/M) Σ_m softmax(f_m)``; ``logit``: ``softmax((1/M) Σ_m f_m)``;
    ``vote``: the share of members whose largest logit is the class.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        rule: How members are combined.

    Returns:
        Probabilities of shape ``(samples, classes)``, in [0, 1], rows summing to one.

    Example:
        >>> logits = torch.tensor([[[0.0, 9.0]], [[1.0, 0.0]], [[1.0, 0.0]]])
        >>> ensemble_probs(logits)
        tensor([[0.4874, 0.5126]])
        >>> ensemble_probs(logits, rule="vote")
        tensor([[0.6667, 0.3333]])
    """
    return map_samples(lambda chunk: chunk.ensemble_probs(rule), logits, rule=rule)


def ensemble_log_probs(logits: Tensor, *, rule: Rule = "probability") -> Tensor:
    """Logarithms of the probabilities of the ensemble.

    For ``probability`` it is ``logsumexp_m(log_softmax(f_m)) - log M``, which stays
    finite where the probabilities themselves underflow to zero.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        rule: How members are combined.

    Returns:
        Log-probabilities of shape ``(samples, classes)``, at most zero; minus infinity
        only for ``vote``, where a class has no vote.

    Example:
        >>> ensemble_log_probs(torch.tensor([[[0.0, 400.0]], [[0.0, 400.0]]]))
        tensor([[-400.,    0.]])
    """
    return map_samples(lambda chunk: chunk.ensemble_log_probs(rule), logits, rule=rule)


def predictions(logits: Tensor) -> Tensor:
    """Class that each member predicts; of equal logits the first class wins.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.

    Returns:
        Class indices of shape ``(members, samples)``.

    Example:
        >>> predictions(torch.tensor([[[0.0, 9.0]], [[1.0, 0.0]]]))
        tensor([[1],
                [0]])
    """
    check_logits(logits)
    return torch.cat([chunk.top[1] for chunk in chunks_of(logits)], dim=1)


def ensemble_predictions(logits: Tensor, *, rule: Rule = "probability") -> Tensor:
    """Class that the ensemble predicts: the most probable one.

    Classes with equally many votes are told apart by the mean of the members'
    probabilities; what is still equal then goes to the first class.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        rule: How members are combined.

    Returns:
        Class indices of shape ``(samples,)``.

    Example:
        >>> logits = torch.tensor([[[0.0, 9.0]], [[1.0, 0.0]], [[1.0, 0.0]]])
        >>> ensemble_predictions(logits), ensemble_predictions(logits, rule="vote")
        (tensor([1]), tensor([0]))
        >>> ensemble_predictions(logits[:2], rule="vote")  # one vote each
        tensor([1])
    """
    return ensemble_top(logits, rule)[1]


def ensemble_top(logits: Tensor, rule: Rule) -> tuple[Tensor, Tensor]:
    """Return the probability of the predicted class, and the class, from one pass."""
    check_logits(logits, rule=rule)
    tops = [chunk.ensemble_top(rule) for chunk in chunks_of(logits)]
    confidence, predicted = zip(*tops, strict=True)
    return torch.cat(confidence), torch.cat(predicted)
