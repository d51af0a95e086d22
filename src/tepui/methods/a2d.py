r"""Agree to disagree (A2D, also D-BAT): members agree on labels and part elsewhere.

On unlabeled data two members with probabilities :math:`p` and :math:`q` pay

.. math::
    \mathrm{A2D}(p, q) = -\log\left[p_y (1 - q_y) + (1 - p_y) q_y\right], \qquad
    y = \arg\max_c p_c,

which is small where exactly one of them believes in the class that the first prefers.
Parallel members descend, over :math:`M` members, labeled samples :math:`n` and
unlabeled samples :math:`u`,

.. math::
    \frac{1}{M} \sum_m \overline{L^m} + \frac{\lambda}{M(M-1)} \sum_{m<l}
    \overline{\mathrm{A2D}(p^m, p^l)},

bars being means over :math:`n` and :math:`u`. Sequential members, the original, train
one after the other: member :math:`t` adds to its own loss :math:`\lambda` times the
mean of :math:`\mathrm{A2D}(p^s, p^t)` over the earlier members :math:`s`, which are
frozen.

Differs from the papers: the value is computed in log-space from probabilities kept
within ``1e-7`` of 0 and 1, where the original adds ``1e-7`` inside the logarithm.
Beyond that bound the gradient is zero. The released code of SED takes one random anchor
and the class of the other member; here all pairs of the step count, and the class comes
from the first. Disagreeing helps where labels follow a shortcut that fails on the
unlabeled data, and costs accuracy there otherwise: on flights of another season 0.1
lost 41 points, and on photographs of an unseen domain the default lost 3.3 (three
seeds).

References:
    Pagliardini et al., Agree to Disagree: Diversity through Disagreement for Better
    Transferability, ICLR 2023. Rubinstein et al., Scalable Ensemble Diversification for
    OOD Generalization and Detection, 2024 (equations 2 and 3).
"""

import math
from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.methods.coupled import ActiveMembers, CoupledBatch, CoupledMethod

# Probabilities keep this distance from 0 and 1.
EPSILON = 1e-7

PairNorm = Literal["paper", "mean"]


def a2d(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Return how much two members agree on each sample.

    Args:
        log_p: Log-probabilities ``(..., classes)`` of the member whose most likely
            class counts.
        log_q: Those of the other, of the same shape.

    Returns:
        Values of shape ``(...)``, from almost 0 (one is sure, the other sure of
        something else) to 15.4 (both are sure of the same class).

    Example:
        >>> p, q = torch.tensor([[0.75, 0.25]]), torch.tensor([[0.5, 0.5]])
        >>> a2d(p.log(), q.log()).exp()  # 1 / (0.75 * 0.5 + 0.25 * 0.5)
        tensor([2.])
    """
    require(
        log_p.shape == log_q.shape and log_p.shape[-1] > 1,
        "log_p and log_q",
        "have the same shape (..., classes), with two classes or more",
        (tuple(log_p.shape), tuple(log_q.shape)),
    )
    classes = log_p.argmax(-1, keepdim=True)
    return _agreement(log_p.gather(-1, classes), log_q.gather(-1, classes)).squeeze(-1)


def a2d_of_pairs(log_probs: Tensor) -> Tensor:
    """Return :func:`a2d` of every pair of members, the class from the earlier one.

    Example:
        >>> log_probs = torch.tensor([[[0.75, 0.25]], [[0.5, 0.5]], [[1.0, 0.0]]]).log()
        >>> (-a2d_of_pairs(log_probs)).exp()
        tensor([[0.5000],
                [0.2500],
                [0.5000]])
    """
    members = len(log_probs)
    # The entry [l, sample, m] is what member l thinks of the class that m prefers.
    classes = log_probs.argmax(-1).T.expand(members, -1, -1)
    believed = log_probs.gather(-1, classes)
    first, second = pairs_of(members, log_probs.device)
    return _agreement(believed[first, :, first], believed[second, :, first])


def pairs_of(members: int, device: torch.device) -> Tensor:
    """Return all pairs of different members, two rows of indices."""
    return torch.triu_indices(members, members, offset=1, device=device)


def over_pairs(values: Tensor, pair_norm: PairNorm) -> Tensor:
    """Join one value per unordered pair of members."""
    mean = values.mean()
    return mean / 2 if pair_norm == "paper" else mean


@final
@dataclass(frozen=True, kw_only=True)
class A2D(CoupledMethod):
    """Members that disagree on unlabeled data.

    Attributes:
        base: The sharpness-aware step of each member, such as ``SAM(rho=0.05)``; None
            descends the joint loss itself.
        weight: Weight of the disagreement; only labeled samples like the unlabeled ones
            can tell which is right.
        parallel: Train all members together; if false one after the other, each for
            its share of the run, away from the earlier ones, which are frozen.
        pair_norm: Divide the sum over pairs of parallel members by M(M-1) as the
            paper does, or take its mean, which is twice that. Sequential members
            always take the mean over the earlier ones.
    """

    weight: float = 0.003
    parallel: bool = True
    pair_norm: PairNorm = "paper"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.weight >= 0, "weight", "be non-negative", self.weight)

    @property
    def needs_unlabeled(self) -> bool:
        """Members disagree on data of their own."""
        return True

    @property
    def fixed_shapes(self) -> bool:
        """Sequential members observe more and more others."""
        return self.parallel

    @property
    def compares_classes(self) -> bool:
        """Members are compared by their probabilities of classes."""
        return True

    def check_members(self, members: int) -> None:
        """Raise unless there are two members to disagree."""
        require(members > 1, "members", "be at least 2 for A2D", members)

    def least_steps(self, members: int) -> int:
        """Return one step, or one for each sequential member."""
        return 1 if self.parallel else members

    def turn(
        self, members: int, progress: float, generator: torch.Generator
    ) -> ActiveMembers:
        """Return all members, or the one whose share of the run it is."""
        if self.parallel:
            return ActiveMembers(tuple(range(members)), (), progress)
        done = progress * members
        # A share that ends on a step must not lose it to rounding.
        now = min(int(done + 1e-9), members - 1)
        return ActiveMembers((now,), tuple(range(now)), max(done - now, 0.0))

    def loss(self, batch: CoupledBatch) -> Tensor:
        """Return the mean loss of the active members plus their agreement."""
        assert batch.unlabeled is not None
        log_probs = batch.unlabeled.log_softmax(-1)
        main = batch.losses.mean()
        if self.parallel:
            pairs = a2d_of_pairs(log_probs).mean(1)
            return main + self.weight * over_pairs(pairs, self.pair_norm)
        now, earlier = log_probs[:1], log_probs[1:]
        if len(earlier) == 0:
            return main
        return main + self.weight * a2d(earlier, now.expand_as(earlier)).mean()


def _agreement(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Return -log(p (1 - q) + (1 - p) q) from logarithms."""
    log_p = log_p.clamp(math.log(EPSILON), math.log1p(-EPSILON))
    log_q = log_q.clamp(math.log(EPSILON), math.log1p(-EPSILON))
    only_p = log_p + (-torch.expm1(log_q)).log()
    only_q = log_q + (-torch.expm1(log_p)).log()
    return -torch.logaddexp(only_p, only_q)
