r"""Sets of classes, or intervals, that hold the truth with a promised probability.

Scores of classes, with probabilities ``p_1 ≥ p_2 ≥ …`` in their order:

- ``threshold``: ``s_c = 1 - p_c``, the smallest sets on average.
- ``aps``: ``s_c = Σ_{k: p_k > p_c} p_k + u p_c``, larger sets for harder samples.

``u`` is 0, so that sets depend on the sample alone and always hold the likeliest class;
they then hold the truth more often than promised where that class alone does. With a
``seed`` the promise is met closely, and some sets are empty. Then ``u`` is the
fractional part of

.. math:: 64 \sum_c w_c \log p_c

with a unit vector :math:`w` drawn from the seed. It is spread evenly over [0, 1), and a
score remains a function of the sample and its label only. So held-out and new samples
stay exchangeable for any seed and any batch, even if many have equal probabilities.
Rounding logits by 1e-6 moves ``u`` by about 1e-4.

Scores of numbers, one for each of them:

- ``residual``: ``|y - μ|``, intervals of one width.
- ``normalized``: ``|y - μ| / σ``, wider where the ensemble is unsure.
- ``quantile``: ``max(l - y, y - u)`` for a predicted interval ``[l, u]``, which is then
  moved outwards, or inwards, by ``q`` at both ends.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, final, get_args

import torch
from torch import Tensor

from tepui.core.checks import class_indices, have_values, one_of, require
from tepui.core.seeding import derive
from tepui.core.warning import warn
from tepui.metrics import chunks
from tepui.metrics.calibration import sorted_rows
from tepui.metrics.chunks import Rule
from tepui.metrics.streaming import in_one_type, joint_tensors


def conformal_quantile(scores: Tensor, coverage: float) -> Tensor:
    """The ``⌈(n + 1) coverage⌉``-th smallest of ``n`` scores, along the first axis.

    Infinity, with a warning, where that is more than ``n``: so few samples can promise
    so much of everything only.

    Args:
        scores: Scores of shape ``(samples, …)``.
        coverage: The share of new samples to hold, in (0, 1).

    Returns:
        The limit, of shape ``(…)``.

    Example:
        >>> conformal_quantile(torch.arange(1.0, 10.0), 0.9)
        tensor(9.)
        >>> conformal_quantile(torch.arange(1.0, 10.0), 0.5)
        tensor(5.)
    """
    check_coverage(coverage)
    shape = tuple(scores.shape)
    require(scores.ndim > 0, "scores", "have shape (samples, …)", shape)
    require(scores.is_floating_point(), "scores", "be floating point", scores.dtype)
    samples = len(scores)
    require(samples > 0, "scores", "hold at least one sample", samples)
    require(not scores.isnan().any(), "scores", "not be NaN", math.nan)
    # The product of whole numbers and decimals may be off in its last digit.
    place = math.ceil((samples + 1) * coverage - 1e-9)
    if place > samples:
        needed = math.ceil(coverage / (1 - coverage) - 1e-9)
        warn(
            f"{samples} samples cannot promise a coverage of {coverage}: sets and "
            f"intervals hold everything; at least {needed} samples are needed"
        )
        return torch.full_like(scores[0], math.inf)
    return scores.detach().kthvalue(place, dim=0).values


def check_coverage(coverage: float) -> None:
    """Check that a coverage lies between 0 and 1."""
    require(0 < coverage < 1, "coverage", "lie in (0, 1)", coverage)


TURNS = 64
LEAST = 1e-30  # of a probability, for its logarithm

SetScore = Literal["threshold", "aps"]
"""What measures how badly a class fits."""


class _Limited:
    """What has a limit and options.

    Attributes:
        kind: How a file names it.
    """

    kind: ClassVar[str]

    def document(self) -> dict[str, Any]:
        """Return everything but the limit, for JSON."""
        options = {key: value for key, value in vars(self).items() if key != "limit"}
        return {"kind": self.kind, **options}

    def tensors(self) -> dict[str, Tensor]:
        """Return what a file keeps, by name."""
        return {"limit": vars(self)["limit"]}


@final
@dataclass(frozen=True, eq=False)
class ConformalSets(_Limited):
    """Sets of classes that hold the true one with a promised probability.

    Attributes:
        limit: The largest score of a class in a set, a scalar.
        coverage: The probability that was promised.
        score: What measures how badly a class fits.
        seed: What ``u`` derives from, with the sample's probabilities; without it ``u``
            is 0.
        rule: How members were combined into the probabilities.
    """

    kind = "sets"
    limit: Tensor
    coverage: float
    score: SetScore = "threshold"
    seed: int | None = None
    rule: Rule = "probability"

    def __post_init__(self) -> None:
        check_coverage(self.coverage)
        one_of("score", self.score, get_args(SetScore))
        one_of("rule", self.rule, get_args(Rule))

    @classmethod
    def fit(
        cls,
        probs: Tensor,
        labels: Tensor,
        *,
        coverage: float = 0.9,
        score: SetScore = "threshold",
        seed: int | None = None,
        rule: Rule = "probability",
    ) -> Self:
        """Find the limit on held-out samples.

        Args:
            probs: Probabilities of the ensemble, ``(samples, classes)``.
            labels: Class indices of shape ``(samples,)``.
            coverage: How often sets shall hold the true class, in (0, 1).
            score: What measures how badly a class fits.
            seed: Derive ``u`` from it, so that the coverage is met closely.
            rule: How members were combined into the probabilities, to be remembered.

        Returns:
            What makes sets of other samples' probabilities.

        Example:
            >>> probs = torch.tensor([[0.6, 0.3, 0.1]]).expand(9, 3)
            >>> labels = torch.tensor([0, 0, 0, 0, 0, 0, 1, 1, 2])
            >>> fitted = ConformalSets.fit(probs, labels, coverage=0.7)
            >>> fitted.sets(probs[:1])
            tensor([[ True,  True, False]])
        """
        options = (coverage, score, seed, rule)
        unset = cls(probs.new_zeros(()), *options)
        _check_probs(probs)
        wanted = f"have shape ({len(probs)},)"
        require(labels.shape == (len(probs),), "labels", wanted, tuple(labels.shape))
        class_indices(labels, probs.shape[1])
        limit = conformal_quantile(unset._label_scores(probs, labels), coverage)
        return cls(limit, *options)

    def sets(self, probs: Tensor) -> Tensor:
        """Return which classes are in the set of each sample.

        Args:
            probs: Probabilities of the ensemble, ``(samples, classes)``.

        Returns:
            Truth values of the same shape.
        """
        _check_probs(probs)
        limit = self.limit.to(probs.device)
        if not have_values():  # a graph takes all samples at once
            return self._sets(probs, limit)
        return torch.cat([self._sets(part, limit) for part in _runs(probs)])

    def beyond(self, probs: Tensor) -> Tensor:
        """Return by how much each class's score exceeds the limit of its set.

        Args:
            probs: Probabilities of the ensemble, ``(samples, classes)``.

        Returns:
            Differences of the same shape, in float64; at most 0 for what is in a set.
        """
        _check_probs(probs)
        of_class = torch.arange(probs.shape[1], device=probs.device)
        columns = [self._label_scores(probs, c.expand(len(probs))) for c in of_class]
        return torch.stack(columns, 1) - self.limit.to(columns[0])

    def _sets(self, probs: Tensor, limit: Tensor) -> Tensor:
        if self.score == "threshold":
            return 1 - probs.double() <= limit.double()
        ordered, before = _ordered(probs)
        inside = before + self._draws(probs).unsqueeze(1) * ordered <= limit
        # Scores rise along the order: the last class inside has the least probability.
        last = inside.sum(-1, keepdim=True)
        least = ordered.gather(1, (last - 1).clamp(min=0)).where(last > 0, math.inf)
        return probs >= least

    def _label_scores(self, probs: Tensor, labels: Tensor) -> Tensor:
        """Return the score of each sample's label, in float64."""
        runs = zip(_runs(probs), labels.split(_at_once(probs)), strict=True)
        return torch.cat([self._run_scores(*run) for run in runs])

    def _run_scores(self, probs: Tensor, labels: Tensor) -> Tensor:
        of_label = probs.gather(1, labels.long().unsqueeze(1))
        if self.score == "threshold":
            return 1 - of_label[:, 0].double()
        ordered, before = _ordered(probs)
        # Of equal probabilities the first place counts: none of them is likelier.
        place = torch.searchsorted(-ordered, -of_label)
        before = before.gather(1, place)[:, 0]
        return before + self._draws(probs) * of_label[:, 0]

    def _draws(self, probs: Tensor) -> Tensor:
        """Return ``u`` of each sample."""
        if self.seed is None:
            return torch.zeros_like(probs[:, 0], dtype=torch.float64)
        logs = probs.double().clamp(min=LEAST).log()
        keys = range(logs.shape[1])
        drawn = [derive(self.seed, "conformal", key) / 2**63 - 0.5 for key in keys]
        weights = logs.new_tensor(drawn)
        turns: Tensor = (logs * weights).sum(-1) * (TURNS / weights.norm())
        return turns - turns.floor()


def _check_probs(probs: Tensor) -> None:
    shape = tuple(probs.shape)
    filled = probs.ndim == 2 and probs.numel() > 0
    require(filled, "probs", "have shape (samples, classes)", shape)
    if not have_values():
        return
    low, high = (float(bound) for bound in torch.aminmax(probs.detach()))
    inside = low >= 0 and high <= 1 + 1e-5
    require(inside, "probs", "lie in [0, 1]", (low, high))


def _at_once(probs: Tensor) -> int:
    return max(1, chunks.LOGITS_AT_ONCE // probs.shape[1])


def _runs(probs: Tensor) -> tuple[Tensor, ...]:
    (values,) = in_one_type(probs)
    return tuple(values.split(_at_once(probs)))


def _ordered(probs: Tensor) -> tuple[Tensor, Tensor]:
    """Return probabilities, the largest first, and the sum of all before each."""
    ordered = sorted_rows(probs).flip(-1)
    return ordered, ordered.double().cumsum(-1) - ordered


IntervalScoreName = Literal["residual", "normalized", "quantile"]
"""What measures how badly a number fits."""


@final
@dataclass(frozen=True, eq=False)
class ConformalIntervals(_Limited):
    """Intervals that hold a number with a promised probability.

    Attributes:
        limit: The largest score of a number inside, one for each number of a sample,
            ``(…)``.
        coverage: The probability that was promised.
        score: What measures how badly a number fits.
    """

    kind = "intervals"
    limit: Tensor
    coverage: float
    score: IntervalScoreName = "residual"

    def __post_init__(self) -> None:
        check_coverage(self.coverage)
        one_of("score", self.score, get_args(IntervalScoreName))

    @classmethod
    def fit(
        cls,
        first: Tensor,
        second: Tensor | None,
        targets: Tensor,
        *,
        coverage: float = 0.9,
        score: IntervalScoreName = "residual",
    ) -> Self:
        """Find the limit on held-out samples.

        Args:
            first: Predicted numbers of shape ``(samples, …)``; for ``"quantile"``
                predicted lower ends.
            second: For ``"normalized"`` the predicted standard deviations, for
                ``"quantile"`` the upper ends, of the same shape; else None.
            targets: The true numbers, of the same shape.
            coverage: How often intervals shall hold the true number, in (0, 1).
            score: What measures how badly a number fits.

        Returns:
            What makes intervals of other samples' predictions.

        Example:
            >>> targets = torch.arange(1.0, 10.0)
            >>> fitted = ConformalIntervals.fit(torch.zeros(9), None, targets)
            >>> fitted.interval(torch.tensor([100.0]))
            (tensor([91.]), tensor([109.]))
        """
        check_coverage(coverage)
        one_of("score", score, get_args(IntervalScoreName))
        _check_second(score, second)
        scores = _misfits(first, second, targets, score)
        return cls(conformal_quantile(scores, coverage), coverage, score)

    def interval(
        self, first: Tensor, second: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the ends of the intervals.

        Args:
            first: What :meth:`fit` took as its first argument, of other samples.
            second: What it took as its second.

        Returns:
            Lower and upper ends, each of the shape of ``first``.
        """
        _check_second(self.score, second)
        reach = self.limit.to(first)
        if self.score == "quantile":
            assert second is not None
            # Quantiles that overlap once moved inwards meet in the middle.
            low, high = first - reach, second + reach
            middle = (low + high) / 2
            return torch.minimum(low, middle), torch.maximum(high, middle)
        if self.score == "normalized":
            assert second is not None
            reach = reach * second
        return first - reach, first + reach


def _check_second(score: IntervalScoreName, second: Tensor | None) -> None:
    wanted = {"residual": "be None", "normalized": "be standard deviations"}
    rule = f"{wanted.get(score, 'be upper ends')} for score={score!r}"
    fits = (second is None) == (score == "residual")
    require(fits, "second", rule, None if second is None else "a tensor")


def _misfits(
    first: Tensor, second: Tensor | None, targets: Tensor, score: IntervalScoreName
) -> Tensor:
    """Return the score of each target."""
    if second is None:
        predicted, answers = joint_tensors(first=first, targets=targets)
        return (answers - predicted).abs()
    tensors = {"first": first, "second": second, "targets": targets}
    predicted, other, answers = joint_tensors(**tensors)
    if score == "quantile":
        return torch.maximum(predicted - answers, answers - other)
    least = float(other.min())
    require(least > 0, "second", "be positive standard deviations", least)
    return (answers - predicted).abs() / other


Conformity = ConformalSets | ConformalIntervals
"""What makes sets or intervals of predictions."""


def stored_conformity(
    document: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> Conformity:
    """Return the sets or intervals that a file describes."""
    options: dict[str, Any] = {**tensors, **document}
    kind = options.pop("kind")
    one_of("kind", kind, ("sets", "intervals"))
    return ConformalSets(**options) if kind == "sets" else ConformalIntervals(**options)
