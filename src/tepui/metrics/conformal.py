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

One limit for all classes promises an average over them; one limit per class, that of
its own samples, promises each class its coverage (Mondrian sets).

Under covariate shift, new inputs come from ``q(x)`` and held-out ones from ``p(x)``.
With weights ``w ∝ q(x) / p(x)`` the limit for a new sample of weight ``w`` is the
smallest score ``s_(k)`` with

.. math:: \sum_{i ≤ k} w_{(i)} ≥ (\sum_i w_i + w) · coverage

and infinite without one. Weights that are estimated come from a logistic regression
that tells held-out samples from shifted ones by the members' mean logits and their
energy; the ratio is clipped to [1/20, 20].

References:
    Vovk, Gammerman and Shafer 2005, "Algorithmic learning in a random world" (Mondrian
    sets); Tibshirani, Foygel Barber, Candès and Ramdas 2019, "Conformal prediction
    under covariate shift" (weights).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, final, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from tepui.core.checks import class_indices, have_values, one_of, require
from tepui.core.seeding import derive
from tepui.core.text import counted, listed
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
        warn(
            f"{samples} samples cannot promise a coverage of {coverage}: sets and "
            f"intervals hold everything; at least {_needed(coverage)} samples are "
            "needed"
        )
        return torch.full_like(scores[0], math.inf)
    return scores.detach().kthvalue(place, dim=0).values


def check_coverage(coverage: float) -> None:
    """Check that a coverage lies between 0 and 1."""
    require(0 < coverage < 1, "coverage", "lie in (0, 1)", coverage)


def _needed(coverage: float) -> int:
    """Return how many samples can promise a coverage."""
    return math.ceil(coverage / (1 - coverage) - 1e-9)


TURNS = 64
LEAST = 1e-30  # of a probability, for its logarithm
CLIP = 20.0  # the largest ratio of densities that is believed, and one over the least

SetScore = Literal["threshold", "aps"]
"""What measures how badly a class fits."""


TENSORS = ("limit", "weights", "ratio")


class _Limited:
    """What has a limit and options.

    Attributes:
        kind: How a file names it.
    """

    kind: ClassVar[str]

    def document(self) -> dict[str, Any]:
        """Return everything but tensors, for JSON."""
        options = {k: v for k, v in vars(self).items() if k not in TENSORS}
        return {"kind": self.kind, **options}

    def tensors(self) -> dict[str, Tensor]:
        """Return what a file keeps, by name."""
        held = ((name, vars(self).get(name)) for name in TENSORS)
        return {name: tensor for name, tensor in held if tensor is not None}

    def __str__(self) -> str:
        return f"a coverage of {vars(self)['coverage']:g}"


@final
@dataclass(frozen=True, eq=False)
class ConformalSets(_Limited):
    """Sets of classes that hold the true one with a promised probability.

    Attributes:
        limit: The largest score of a class in a set, a scalar; one for each class,
            ``(classes,)``; or with weights the held-out samples' scores, rising.
        coverage: The probability that was promised.
        score: What measures how badly a class fits.
        seed: What ``u`` derives from, with the sample's probabilities; without it ``u``
            is 0.
        rule: How members were combined into the probabilities.
        weights: Sums of the weights up to each of these scores; None without weights.
        ratio: Factors of a sample's mean logits and their energy, and a constant, which
            make the logarithm of its weight; None if weights are to be given.
    """

    kind = "sets"
    limit: Tensor
    coverage: float
    score: SetScore = "threshold"
    seed: int | None = None
    rule: Rule = "probability"
    weights: Tensor | None = None
    ratio: Tensor | None = None

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
        per: Literal["class"] | None = None,
        weights: Tensor | None = None,
        ratio: Tensor | None = None,
    ) -> Self:
        """Find the limit on held-out samples.

        Args:
            probs: Probabilities of the ensemble, ``(samples, classes)``.
            labels: Class indices of shape ``(samples,)``.
            coverage: How often sets shall hold the true class, in (0, 1).
            score: What measures how badly a class fits.
            seed: Derive ``u`` from it, so that the coverage is met closely.
            rule: How members were combined into the probabilities, to be remembered.
            per: ``"class"`` promises the coverage for every class by itself. A class
                with too few samples is in every set, with a warning.
            weights: How much likelier each sample is among new inputs than here, up to
                a common factor, ``(samples,)``; :meth:`sets` then needs those of the
                new samples.
            ratio: What tells the weights of new samples, to be remembered.

        Returns:
            What makes sets of other samples' probabilities.

        Example:
            >>> probs = torch.tensor([[0.6, 0.3, 0.1]]).expand(9, 3)
            >>> labels = torch.tensor([0, 0, 0, 0, 0, 0, 1, 1, 2])
            >>> fitted = ConformalSets.fit(probs, labels, coverage=0.7)
            >>> fitted.sets(probs[:1])
            tensor([[ True,  True, False]])
            >>> weights = torch.tensor([1.0, 1, 1, 1, 1, 1, 1, 1, 5])
            >>> fitted = ConformalSets.fit(probs, labels, coverage=0.7, weights=weights)
            >>> fitted.sets(probs[:1], torch.tensor([1.0]))
            tensor([[True, True, True]])
        """
        options = (coverage, score, seed, rule)
        unset = cls(probs.new_zeros(()), *options)
        _check_probs(probs)
        wanted = f"have shape ({len(probs)},)"
        require(labels.shape == (len(probs),), "labels", wanted, tuple(labels.shape))
        class_indices(labels, probs.shape[1])
        one_of("per", str(per), ("None", "class"))
        require(per is None or weights is None, "per", "be None beside weights", per)
        scores = unset._label_scores(probs, labels)
        if weights is not None:
            _check_weights(weights, len(probs))
            require(bool(weights.any()), "weights", "not all be 0", 0)
            rising, order = scores.sort()
            sums = weights.to(scores)[order].cumsum(0)
            made = cls(rising, *options, sums, ratio)
            if made.effective_samples < (needed := _needed(coverage)):
                warn(f"{made}: it needs at least {needed}")
            return made
        if per is not None:
            return cls(_of_classes(scores, labels, probs.shape[1], coverage), *options)
        return cls(conformal_quantile(scores, coverage), *options)

    def sets(self, probs: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return which classes are in the set of each sample.

        Args:
            probs: Probabilities of the ensemble, ``(samples, classes)``.
            weights: Those of the samples, ``(samples,)``, if the held-out ones had
                some.

        Returns:
            Truth values of the same shape.
        """
        limits = self._limits(probs, weights)
        if not have_values():  # a graph takes all samples at once
            return self._sets(probs, limits)
        of_runs = limits.expand(len(probs), -1).split(_at_once(probs))
        return torch.cat(list(map(self._sets, _runs(probs), of_runs)))

    def beyond(self, probs: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return by how much each class's score exceeds the limit of its set.

        Args:
            probs: Probabilities of the ensemble, ``(samples, classes)``.
            weights: As for :meth:`sets`.

        Returns:
            Differences of the same shape, in float64; at most 0 for what is in a set.
        """
        limits = self._limits(probs, weights)
        return torch.cat([self._scores(part) for part in _runs(probs)]) - limits

    @property
    def effective_samples(self) -> float:
        """How many samples of equal weights say as much as the held-out ones.

        It is ``(Σ w)² / Σ w²``, or without weights infinite.
        """
        if self.weights is None:
            return math.inf
        each = self.weights.diff(prepend=self.weights.new_zeros(1))
        return float(self.weights[-1].square() / each.square().sum())

    def __str__(self) -> str:
        told = super().__str__()
        if self.weights is not None:
            same = counted(round(self.effective_samples), "equal sample")
            return f"{told} under shift (weights worth {same})"
        return f"{told} of each class" if self.limit.ndim else told

    def _limits(self, probs: Tensor, weights: Tensor | None) -> Tensor:
        """Return the limits, in one row for all samples, or in one for each."""
        _check_probs(probs)
        limit = self.limit.to(probs.device)
        given = weights is not None
        wanted = "be given if held-out samples had weights, and else be None"
        require((self.weights is not None) == given, "weights", wanted, given)
        if self.weights is None or weights is None:
            return limit.reshape(1, -1)
        sums = self.weights.to(probs.device)
        # Rounding of the sums must not ask for one more sample than equal weights do.
        reach = (sums[-1] + weights.to(sums)) * (self.coverage * (1 - 1e-12))
        limits = F.pad(limit, (0, 1), value=math.inf).unsqueeze(1)
        if not have_values():  # ONNX does not search
            return limits[(sums < reach.unsqueeze(1)).sum(1)]
        _check_weights(weights, len(probs))
        return limits[torch.searchsorted(sums, reach)]

    def _sets(self, probs: Tensor, limits: Tensor) -> Tensor:
        if self.score == "threshold" or limits.shape[1] > 1:
            return self._scores(probs) <= limits.double()
        ordered, before = _ordered(probs)
        inside = before + self._draws(probs).unsqueeze(1) * ordered <= limits
        # Scores rise along the order: the last class inside has the least probability.
        last = inside.sum(-1, keepdim=True)
        least = ordered.gather(1, (last - 1).clamp(min=0)).where(last > 0, math.inf)
        return probs >= least

    def _label_scores(self, probs: Tensor, labels: Tensor) -> Tensor:
        """Return the score of each sample's label, in float64."""
        own = labels.long().unsqueeze(1).split(_at_once(probs))
        parts = zip(map(self._scores, _runs(probs)), own, strict=True)
        return torch.cat([scores.gather(1, it) for scores, it in parts])[:, 0]

    def _scores(self, probs: Tensor) -> Tensor:
        """Return the score of every class, in float64."""
        if self.score == "threshold":
            return 1 - probs.double()
        if have_values():
            ordered, before = _ordered(probs)
            # Of equal probabilities the first place counts: none of them is likelier.
            before = before.gather(1, torch.searchsorted(-ordered, -probs))
        else:
            likelier = probs.unsqueeze(1) > probs.unsqueeze(2)
            before = (probs.unsqueeze(1) * likelier).double().sum(-1)
        return before + self._draws(probs).unsqueeze(1) * probs

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


def _of_classes(
    scores: Tensor, labels: Tensor, classes: int, coverage: float
) -> Tensor:
    """Return the limit of each class; infinity, with a warning, of too few samples."""
    needed, limits = _needed(coverage), scores.new_full((classes,), math.inf)
    counts = labels.bincount(minlength=classes).tolist()
    few = [f"class {c}: {n}" for c, n in enumerate(counts) if n < needed]
    if few:
        warn(
            f"a coverage of {coverage} of each class needs at least {needed} samples "
            f"of it; every set holds those with fewer:{listed(few)}"
        )
    for label, count in enumerate(counts):
        if count >= needed:
            limits[label] = conformal_quantile(scores[labels == label], coverage)
    return limits


def _check_weights(weights: Tensor, samples: int) -> None:
    shape = tuple(weights.shape)
    require(shape == (samples,), "weights", f"have shape ({samples},)", shape)
    good = bool((weights >= 0).all() and weights.isfinite().all())
    bad = "a negative, infinite or NaN one"
    require(good, "weights", "be finite and not negative", bad)


def _looks(outputs: Tensor) -> Tensor:
    """Return by what samples are told apart: mean logits and their energy."""
    logits = outputs.double().mean(0)
    return torch.cat([logits, logits.logsumexp(1, keepdim=True)], 1)


def density_ratio(held: Tensor, shifted: Tensor) -> Tensor:
    """Fit how much likelier samples are among shifted ones than among held-out ones.

    Args:
        held: Logits of held-out samples, ``(members, samples, classes)``.
        shifted: Those of the others.

    Returns:
        Factors of mean logits and of their energy, and a constant: the logarithm of the
        ratio is their sum.

    Example:
        >>> held = torch.linspace(-1, 1, 100).expand(2, 1, 100).mT
        >>> bool((density_ratio(held, held + 0.5)[:-1] > 0).all())
        True
    """
    from sklearn.linear_model import LogisticRegression

    rows = torch.cat([_looks(held), _looks(shifted)]).cpu()
    center, scale = rows.mean(0), rows.std(0).clamp(min=LEAST)
    is_shifted = torch.arange(len(rows)) >= held.shape[1]
    fitted = LogisticRegression(max_iter=1000)
    fitted.fit(((rows - center) / scale).numpy(), is_shifted.numpy())
    factors = torch.from_numpy(fitted.coef_[0]) / scale
    odds = float(fitted.intercept_[0]) + math.log(held.shape[1] / shifted.shape[1])
    return torch.cat([factors, (odds - factors @ center).reshape(1)])


def ratio_weights(ratio: Tensor | None, outputs: Tensor) -> Tensor | None:
    """Return the weights of samples by a fitted ratio, clipped; None without one.

    Args:
        ratio: What :func:`density_ratio` returned.
        outputs: Logits of every member, ``(members, samples, classes)``.
    """
    if ratio is None:
        return None
    own = ratio.to(outputs.device)
    logs = _looks(outputs) @ own[:-1] + own[-1]
    return logs.clamp(-math.log(CLIP), math.log(CLIP)).exp()


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
