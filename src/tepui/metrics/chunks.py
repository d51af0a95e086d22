"""Runs of samples, and what metrics derive from their logits.

Metrics work on one run of samples after another, so that they need a few hundred
megabytes at most, however many samples there are; several metrics of a run share its
softmax.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor

from tepui.core.checks import have_values, labels_match, logits_shape, one_of, require

Rule = Literal["probability", "logit", "vote"]
"""How members are combined: mean probability, softmax of the mean logits, or votes."""

LOGITS_AT_ONCE = 2**22
# Below it, probabilities lose digits in float32 before they become zero.
_SMALLEST_SUM = 1e-30


class Chunk:
    """Some samples; what derives from their logits is computed once, on demand.

    Args:
        logits: Shape ``(members, samples, classes)``, float32 or float64.
        labels: Class indices, ``(samples,)``, for metrics that need them.

    Attributes:
        logits: Shape ``(members, samples, classes)``, float32 or float64.
    """

    def __init__(self, logits: Tensor, labels: Tensor | None = None) -> None:
        self.logits = logits
        self._labels = labels
        self._probs: dict[Rule, Tensor] = {}
        self._tops: dict[Rule, tuple[Tensor, Tensor]] = {}

    @property
    def labels(self) -> Tensor:
        """Class indices, ``(samples,)``; only for metrics that are ``labeled``."""
        if self._labels is None:
            raise AssertionError("the metric did not ask for labels")
        return self._labels

    @property
    def num_samples(self) -> Tensor:
        """Number of samples, a whole number on the device of the logits."""
        size = self.logits.shape[1]
        return self.logits.new_full((), size, dtype=torch.int64)

    @cached_property
    def log_probs(self) -> Tensor:
        """Each member's log-probabilities, ``(members, samples, classes)``."""
        log_probs = self.logits.log_softmax(-1)
        # Logits that are too far apart give minus infinity, and 0 times that is NaN.
        return log_probs.clamp_(min=torch.finfo(log_probs.dtype).min)

    @cached_property
    def probs(self) -> Tensor:
        """Each member's probabilities, ``(members, samples, classes)``."""
        return self.log_probs.exp()

    @cached_property
    def mean_logits(self) -> Tensor:
        """The mean of the members' logits, finite where their sum is not."""
        limits = torch.finfo(self.logits.dtype)
        # Powers of two: what they scale keeps its digits.
        power = 2.0 ** (len(self.logits) - 1).bit_length()
        mean = (self.logits / power).mean(0) * power
        return mean.clamp_(limits.min, limits.max)

    def below_largest(self, rule: Rule) -> Tensor:
        """Return logits less the largest of their sample, finite in any case.

        Args:
            rule: Those of the mean where members are combined by ``"logit"``, else
                those of each member.

        Returns:
            Shape ``(members, samples, classes)``, with one member for the mean.
        """
        raw = self.mean_logits.unsqueeze(0) if rule == "logit" else self.logits
        values = raw - raw.amax(-1, keepdim=True)
        return values.clamp_(min=torch.finfo(values.dtype).min)

    @cached_property
    def top(self) -> tuple[Tensor, Tensor]:
        """Each member's largest logit and its class, both ``(members, samples)``."""
        # On a CPU max is several times faster than argmax.
        largest, predicted = self.logits.max(-1)
        return largest, predicted

    @cached_property
    def member_errors(self) -> Tensor:
        """Number of wrong predictions of each member."""
        return (self.top[1] != self.labels).sum(-1)

    @cached_property
    def pair_differences(self) -> Tensor:
        """Number of samples on which two members differ, ``(members, members)``."""
        predicted = self.top[1]
        return torch.stack([(predicted != row).sum(-1) for row in predicted])

    @cached_property
    def pair_kl(self) -> Tensor:
        """Divergence between two members summed over samples, rows from, columns to."""
        members = len(self.logits)
        total = wide(self.logits.new_zeros(members, members))
        for i, (p, log_p) in enumerate(zip(self.probs, self.log_probs, strict=True)):
            gap = log_p - self.log_probs[i + 1 :]
            total[i, i + 1 :] = wide((p * gap).sum(-1)).sum(-1)
            total[i + 1 :, i] = -wide((self.probs[i + 1 :] * gap).sum(-1)).sum(-1)
        return total

    @cached_property
    def member_entropy(self) -> Tensor:
        """Entropy of each member's probabilities, ``(members, samples)``."""
        index = self.top[1].unsqueeze(-1)
        return _entropies(self.probs, index, self.probs * self.log_probs)

    @cached_property
    def ensemble_entropy(self) -> Tensor:
        """Entropy of the members' mean probability, ``(samples,)``."""
        probs = self.ensemble_probs("probability")
        index = self.ensemble_top("probability")[1].unsqueeze(-1)
        return _entropies(probs, index, torch.special.xlogy(probs, probs))

    def ensemble_probs(self, rule: Rule) -> Tensor:
        """Return the ensemble's probabilities.

        Args:
            rule: How members are combined.

        Returns:
            Shape ``(samples, classes)``.
        """
        if rule not in self._probs:
            self._probs[rule] = self._combined(rule)
        return self._probs[rule]

    def ensemble_log_probs(self, rule: Rule) -> Tensor:
        """Return the logarithms of the ensemble's probabilities.

        Args:
            rule: How members are combined.

        Returns:
            Shape ``(samples, classes)``.
        """
        if rule == "vote":
            return self.ensemble_probs(rule).log()
        if rule == "logit":
            return self.mean_logits.log_softmax(-1)
        return self.log_probs.logsumexp(0) - math.log(len(self.logits))

    def label_log_probs(self, rule: Rule) -> Tensor:
        """Return the ensemble's log-probability of each label.

        Args:
            rule: How members are combined.

        Returns:
            Shape ``(samples,)``.
        """
        index = self.labels.unsqueeze(-1)
        if rule != "probability":
            return self.ensemble_log_probs(rule).gather(1, index)[:, 0]
        members = len(self.logits)
        by_member = self.log_probs.gather(2, index.expand(members, -1, 1))[:, :, 0]
        return by_member.logsumexp(0) - math.log(members)

    def ensemble_top(self, rule: Rule) -> tuple[Tensor, Tensor]:
        """Return the ensemble's largest probability of each sample, and its class.

        Args:
            rule: How members are combined.

        Returns:
            Probabilities and class indices, both ``(samples,)``.
        """
        if rule not in self._tops:
            self._tops[rule] = self._ensemble_top(rule)
        return self._tops[rule]

    def log_doubt(self, rule: Rule) -> Tensor:
        """Return the logarithm of one minus the ensemble's largest probability.

        It orders samples whose probabilities are all one when rounded.

        Args:
            rule: How members are combined.

        Returns:
            Shape ``(samples,)``, at most zero; minus infinity where no doubt is left.
        """
        confidence, predicted = self.ensemble_top(rule)
        if rule == "vote":
            return (1 - confidence).log()
        index = predicted.unsqueeze(1)
        others = self.ensemble_probs(rule).scatter(1, index, 0).sum(-1)
        logs, lost = others.log(), others < _SMALLEST_SUM
        if lost.any():
            exact = self._log_probs_of(rule, lost).scatter(1, index[lost], -math.inf)
            logs[lost] = exact.logsumexp(-1)
        return logs

    def correct(self, rule: Rule) -> Tensor:
        """Return whether the ensemble's prediction is the label.

        Args:
            rule: How members are combined.

        Returns:
            Truth values, ``(samples,)``.
        """
        return self.ensemble_top(rule)[1] == self.labels

    def _log_probs_of(self, rule: Rule, rows: Tensor) -> Tensor:
        return Chunk(self.logits[:, rows]).ensemble_log_probs(rule)

    def _combined(self, rule: Rule) -> Tensor:
        if rule == "vote":
            votes = torch.zeros_like(self.logits[0])
            for chosen in self.top[1].unsqueeze(-1):
                votes.scatter_(1, chosen, votes.gather(1, chosen) + 1)
            return votes / len(self.logits)
        if rule == "logit":
            return self.mean_logits.softmax(-1)
        return self.probs.mean(0)

    def _ensemble_top(self, rule: Rule) -> tuple[Tensor, Tensor]:
        probs = self.ensemble_probs(rule)
        confidence, predicted = probs.max(-1)
        if rule == "vote":
            beaten = probs < confidence.unsqueeze(-1)
            mean = self.ensemble_probs("probability")
            predicted = mean.masked_fill(beaten, -1).max(-1).indices
        return confidence, predicted


def check_logits(
    logits: Tensor,
    labels: Tensor | None = None,
    *,
    rule: str = "probability",
    min_members: int = 1,
) -> None:
    """Check logits, and labels if there are any, as every metric does on entry."""
    logits_shape(logits, min_members=min_members)
    why = " (a large negative number stands for an impossible class)"
    check_finite("logits", logits, why)
    one_of("rule", rule, get_args(Rule))
    if labels is not None:
        labels_match(labels, logits)


def check_finite(name: str, values: Tensor, why: str = "") -> None:
    """Check that all values are finite."""
    # A finite sum has finite terms; only a sum that overflows needs a closer look.
    if have_values() and not math.isfinite(float(values.detach().sum())):
        low, high = (float(bound) for bound in torch.aminmax(values.detach()))
        finite = math.isfinite(low) and math.isfinite(high)
        require(finite, name, f"be finite{why}", (low, high))


def dtype_of(values: Tensor) -> torch.dtype:
    """Return the type that results derived from some values have."""
    return torch.float64 if values.dtype == torch.float64 else torch.float32


def wide(values: Tensor) -> Tensor:
    """Return values in the type that sums over all samples are kept in."""
    return values if values.device.type == "mps" else values.double()


def chunks_of(logits: Tensor, labels: Tensor | None = None) -> Iterator[Chunk]:
    """Yield runs of samples, without gradient, in at least 32 bits."""
    if not have_values():  # a graph takes any number of samples, all at once
        yield Chunk(logits.to(dtype_of(logits)), labels)
        return
    samples = samples_at_once(logits)
    for start in range(0, logits.shape[1], samples):
        part = logits.detach()[:, start : start + samples].to(dtype_of(logits))
        answers = None if labels is None else labels[start : start + samples].long()
        yield Chunk(part, answers)


def samples_at_once(logits: Tensor) -> int:
    """Return how many samples of so many members and classes make a run."""
    return max(1, LOGITS_AT_ONCE // (logits.shape[0] * logits.shape[2]))


def regrouped(
    batches: Iterable[tuple[Tensor, Tensor]],
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of logits and labels as the runs that the whole is cut into.

    Sums over these runs, one after the other, are those over the whole to the bit,
    whatever the batches are.
    """
    held: list[tuple[Tensor, Tensor]] = []
    size = 0
    for logits, labels in batches:
        run, start = samples_at_once(logits), 0
        while size + logits.shape[1] - start >= run:
            end = start + run - size
            held.append((logits[:, start:end], labels[start:end]))
            yield _joined(held)
            held, size, start = [], 0, end
        if start < logits.shape[1]:
            # A copy of the rest, so that the batch can go.
            rest = logits[:, start:].clone() if start else logits
            held.append((rest, labels[start:]))
            size += rest.shape[1]
    if held:
        yield _joined(held)


def _joined(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    if len(parts) == 1:
        return parts[0]
    logits, labels = zip(*parts, strict=True)
    return torch.cat(logits, dim=1), torch.cat(labels)


def map_samples(
    function: Callable[[Chunk], Tensor], logits: Tensor, *, rule: Rule = "probability"
) -> Tensor:
    """Return what a function of a chunk gives for each sample, after checks."""
    check_logits(logits, rule=rule)
    return torch.cat([function(chunk) for chunk in chunks_of(logits)])


def _entropies(probs: Tensor, index: Tensor, terms: Tensor) -> Tensor:
    """Return entropies, given the likeliest class and ``p log p``, overwritten.

    A probability next to one is told by what the others leave of it, so that small
    entropies keep their digits.
    """
    others = terms.scatter_(-1, index, 0).sum(-1)
    doubt = terms.copy_(probs).scatter_(-1, index, 0).sum(-1)
    return (doubt - 1) * torch.log1p(-doubt) - others


def spread(values: Tensor) -> Tensor:
    """Unbiased variance over members, summed over classes; zero for one member."""
    # From the first member on, equal members give exactly zero, which the rounded mean
    # of equal numbers does not.
    offset = values - values[0]
    square = offset.sub_(offset.mean(0)).square_()
    variance = square.sum((0, 2)) / max(1, len(values) - 1)
    # Finite numbers whose difference is not: the variance is beyond all floats.
    return variance.nan_to_num_(nan=torch.inf, posinf=torch.inf)


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
