"""How well a score tells unfamiliar samples from familiar ones.

Scores are high where a sample is unfamiliar. Everything rests on their order alone,
counted in whole numbers: equal scores count half in :func:`auroc` and pass a threshold
together in :func:`aupr` and :func:`fpr95`, so that the order of the samples does not
matter.

``positive`` names the class that is to be detected. ``"ood"``, the default, asks how
well unfamiliar samples are found; ``"in"`` asks how well familiar ones are recognized,
by low scores. Literature reports both, as AUPR-Out and AUPR-In, and FPR95 mostly for
``"in"``. AUROC is the same for both.
"""

from typing import Literal, final, get_args

import torch
from torch import Tensor

from tepui.core.checks import one_of, require
from tepui.metrics.chunks import _dtype, _wide
from tepui.metrics.streaming import Streaming

Positive = Literal["ood", "in"]
"""The class to be detected: unfamiliar samples by high, familiar by low scores."""


class _Detection(Streaming[Tensor]):
    """A measure of two sets of scores, which are kept."""

    num_states = 2
    joined = True

    def update(
        self, in_scores: Tensor | None = None, ood_scores: Tensor | None = None
    ) -> None:
        """Take in some scores of either kind."""
        given = {"in_scores": in_scores, "ood_scores": ood_scores}
        known = {name: each for name, each in given.items() if each is not None}
        require(bool(known), "in_scores or ood_scores", "be given", None)
        for name, scores in known.items():
            _check_scores(name, scores)
        for scores in known.values():
            self._seen(scores)
        none = next(iter(known.values())).new_empty(0)
        self._keep(tuple(known.get(name, none).detach() for name in given))

    def _of(self, in_scores: Tensor, ood_scores: Tensor) -> Tensor:
        self.update(in_scores, ood_scores)
        return self._result(stacklevel=4)


@final
class AUROC(_Detection):
    """Streaming :func:`auroc`; keeps the scores."""

    def _value(self, *state: Tensor) -> Tensor:
        in_scores, ood_scores = _filled(*state)
        ordered = in_scores.sort().values
        below = torch.searchsorted(ordered, ood_scores)
        not_above = torch.searchsorted(ordered, ood_scores, right=True)
        pairs = len(in_scores) * len(ood_scores)
        return _wide((below + not_above).sum()) / (2 * pairs)


@final
class AUPR(_Detection):
    """Streaming :func:`aupr`; keeps the scores.

    Args:
        positive: The class to be detected.
    """

    def __init__(self, positive: Positive = "ood") -> None:
        one_of("positive", positive, get_args(Positive))
        super().__init__()
        self.positive = positive

    def _value(self, *state: Tensor) -> Tensor:
        found, others = _ordered(*_filled(*state), self.positive)
        true = len(found) - torch.searchsorted(found, found)
        false = len(others) - torch.searchsorted(others, found)
        return (_wide(true) / (true + false)).mean()


@final
class FPR95(_Detection):
    """Streaming :func:`fpr95`; keeps the scores.

    Args:
        positive: The class to be detected.
    """

    def __init__(self, positive: Positive = "ood") -> None:
        one_of("positive", positive, get_args(Positive))
        super().__init__()
        self.positive = positive

    def _value(self, *state: Tensor) -> Tensor:
        found, others = _ordered(*_filled(*state), self.positive)
        needed = -(-19 * len(found) // 20)
        threshold = found[len(found) - needed]
        return _wide((others >= threshold).sum()) / len(others)


def auroc(in_scores: Tensor, ood_scores: Tensor) -> Tensor:
    """Area under the ROC curve: how often an unfamiliar sample has the higher score.

    ``P(s_ood > s_in) + P(s_ood = s_in) / 2`` over all pairs. Higher is better; range
    [0, 1], 0.5 for a score that tells nothing.

    Args:
        in_scores: Scores of familiar samples, of shape ``(samples,)``.
        ood_scores: Scores of unfamiliar samples, of any length.

    Returns:
        A scalar.

    Raises:
        ValueError: If scores are not one axis of floating numbers, are missing or NaN.

    Example:
        >>> auroc(torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.2, 0.9]))
        tensor(0.7500)
    """
    return AUROC()._of(in_scores, ood_scores)


def aupr(in_scores: Tensor, ood_scores: Tensor, positive: Positive = "ood") -> Tensor:
    """Area under the precision-recall curve, as average precision.

    The mean, over positive samples, of the precision at the threshold that just admits
    the sample. Higher is better; range (0, 1]. A score that tells nothing gets the
    share of positive samples, so values compare only where that share is equal. Steps
    are not joined by straight lines, which would flatter.

    Args:
        in_scores: Scores of familiar samples, of shape ``(samples,)``.
        ood_scores: Scores of unfamiliar samples, of any length.
        positive: The class to be detected: ``"ood"`` (AUPR-Out) or ``"in"`` (AUPR-In).

    Returns:
        A scalar.

    Raises:
        ValueError: If scores are not one axis of floating numbers, are missing or NaN,
            or the class is unknown.

    Example:
        >>> aupr(torch.tensor([0.1, 0.3]), torch.tensor([0.2, 0.9]))
        tensor(0.8333)
    """
    return AUPR(positive)._of(in_scores, ood_scores)


def fpr95(in_scores: Tensor, ood_scores: Tensor, positive: Positive = "ood") -> Tensor:
    """Share of negative samples that pass where 95 % of the positive ones do.

    The threshold is the strictest at which at least 95 % pass. Lower is better; range
    [0, 1], about 0.95 for a score that tells nothing.

    Args:
        in_scores: Scores of familiar samples, of shape ``(samples,)``.
        ood_scores: Scores of unfamiliar samples, of any length.
        positive: The class to be detected: ``"ood"`` gives the false alarms where 95 %
            of unfamiliar samples are found, ``"in"`` the unfamiliar samples missed
            where 95 % of familiar ones are accepted.

    Returns:
        A scalar.

    Raises:
        ValueError: If scores are not one axis of floating numbers, are missing or NaN,
            or the class is unknown.

    Example:
        >>> fpr95(torch.tensor([0.1, 0.3]), torch.tensor([0.2, 0.9]))
        tensor(0.5000)
    """
    return FPR95(positive)._of(in_scores, ood_scores)


def _check_scores(name: str, scores: Tensor) -> None:
    require(scores.ndim == 1, name, "have shape (samples,)", tuple(scores.shape))
    require(scores.is_floating_point(), name, "be floating point", scores.dtype)
    bad = torch.isnan(scores)
    if bad.any():
        raise ValueError(
            f"{name} must not be NaN, got {int(bad.sum())} NaN value(s), "
            f"the first at sample {int(bad.nonzero()[0])}"
        )


def _filled(in_scores: Tensor, ood_scores: Tensor) -> tuple[Tensor, Tensor]:
    for name, scores in (("in_scores", in_scores), ("ood_scores", ood_scores)):
        require(len(scores) > 0, name, "hold at least one sample", 0)
    # searchsorted and sort take no 16-bit numbers everywhere; widening keeps the order.
    wide = torch.promote_types(_dtype(in_scores), _dtype(ood_scores))
    return in_scores.to(wide).contiguous(), ood_scores.to(wide).contiguous()


def _ordered(
    in_scores: Tensor, ood_scores: Tensor, positive: Positive
) -> tuple[Tensor, Tensor]:
    """Return the scores of positive and negative samples, high for positive, sorted."""
    if positive == "ood":
        return ood_scores.sort().values, in_scores.sort().values
    return (-in_scores).sort().values, (-ood_scores).sort().values
