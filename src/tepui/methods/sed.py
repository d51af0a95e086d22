r"""Scalable ensemble diversification (SED): disagreement without unlabeled data.

Samples that the ensemble finds hard stand for unfamiliar ones. With the cross-entropy
:math:`\ell_n` of the members' averaged logits, a sample weighs

.. math:: \alpha_n = \ell_n \Big/ \Big(\frac{1}{N} \sum_b \ell_b\Big)^2,

held fixed, and the members descend

.. math::
    \frac{1}{M N} \sum_{m,n} L^m_n + \frac{\lambda}{N M (M-1)} \sum_n \sum_{m<l}
    \alpha_n \, \mathrm{A2D}(p^m_n, p^l_n).

A step may draw some members without replacement and replace :math:`M` by their number,
which leaves the expected loss as it is and the step's cost independent of :math:`M`.

Where paper and released code differ: the paper draws members for the pairs alone
(``main="all"``), the code for the whole step (``main="active"``, the default, since
only that can make the cost independent of M); the paper averages the logits of all
members in :math:`\alpha` (``alpha="all"``), the code those of the drawn ones
(``"active"``, the default); the paper's factor is half the mean over pairs
(``pair_norm="paper"``, the default), the code takes the mean.

Differs from both: :math:`\alpha` divides by no less than ``floor`` squared, for it
grows without bound as the batch is learned, and the kernel may be DivDis's mutual
information. That is a quantity of a batch and not of a sample, so here joint and
marginal distributions weigh samples by :math:`\alpha_n / \sum_b \alpha_b`, and the
result is multiplied by the mean of :math:`\alpha`. This definition is ours.

References:
    Rubinstein et al., Scalable Ensemble Diversification for OOD Generalization and
    Detection, 2024.
"""

from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.losses import cross_entropy
from tepui.methods.a2d import PairNorm, a2d_of_pairs, over_pairs
from tepui.methods.coupled import ActiveMembers, CoupledBatch, CoupledMethod
from tepui.methods.divdis import divdis_mutual_information

Kernel = Literal["a2d", "divdis"]
Weighting = Literal["active", "all", "none"]
Part = Literal["active", "all"]


def sed_alpha(logits: Tensor, targets: Tensor, floor: float = 1e-3) -> Tensor:
    """Return how much each sample counts in the disagreement.

    Example:
        >>> logits = torch.zeros(3, 4, 2)  # a loss of log 2 each
        >>> (1 / sed_alpha(logits, torch.tensor([0, 1, 0, 1]))).exp()
        tensor([2., 2., 2., 2.])
    """
    losses = cross_entropy(logits.detach().mean(0), targets)
    return losses / losses.mean().clamp(min=floor).square()


@final
@dataclass(frozen=True, kw_only=True)
class SED(CoupledMethod):
    """Members that disagree on the training samples the ensemble finds hard.

    Attributes:
        base: The sharpness-aware step of each member, such as ``SAM(rho=0.05)``; None
            descends the joint loss itself.
        weight: Weight of the disagreement; 0 leaves the random choice of members, if
            ``active`` makes one. The papers have 0.1 and draw two, which lost 0.9
            points on frozen features and 3.6 in 12 epochs of images. Where data shift,
            only labeled samples of the shift can choose.
        active: How many members each step draws; None for all. With fewer a step's cost
            does not depend on their number, and each makes fewer updates in an epoch.
        kernel: How disagreement is measured: ``"a2d"`` or ``"divdis"``.
        alpha: Whose averaged logits say how hard a sample is: those of the members
            drawn (``"active"``) or of ``"all"``, which costs a forward pass of each;
            ``"none"`` weighs all samples 1.
        main: Whether the members drawn (``"active"``) or ``"all"`` learn the labels in
            each step; the cost of ``"all"`` grows with their number.
        pair_norm: Divide the sum over k drawn members' pairs by k(k-1) as the paper
            does, or take its mean, which is twice that.
        floor: The least that a batch's mean loss is taken for in ``alpha``.
    """

    weight: float = 0.03
    active: int | None = None
    kernel: Kernel = "a2d"
    alpha: Weighting = "active"
    main: Part = "active"
    pair_norm: PairNorm = "paper"
    floor: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.weight >= 0, "weight", "be non-negative", self.weight)
        drawn = self.active
        require(drawn is None or drawn >= 2, "active", "be at least 2, a pair", drawn)
        require(self.floor > 0, "floor", "be positive", self.floor)

    @property
    def compares_classes(self) -> bool:
        """Members are compared by their probabilities of classes."""
        return True

    @property
    def scores_samples(self) -> bool:
        """Whether samples weigh by the ensemble's loss on them."""
        return self.alpha != "none"

    def check_members(self, members: int) -> None:
        """Raise unless there are two members, and as many as a step draws."""
        require(members > 1, "members", "be at least 2 for SED", members)
        require(
            self.active is None or self.active <= members,
            "active",
            f"be at most the number of members ({members})",
            self.active,
        )

    def remark(self, members: int) -> str | None:
        """Return how many updates a member makes where each step trains a few."""
        if self.main == "all" or self.active is None or self.active >= members:
            return None
        return (
            f"each step trains {self.active} of {members} members, so that a member "
            f"makes {self.active / members:.0%} of a deep ensemble's updates; for as "
            f"many, train {members / self.active:.3g} times the epochs"
        )

    def turn(
        self, members: int, progress: float, generator: torch.Generator
    ) -> ActiveMembers:
        """Draw the members that disagree; they come first in the turn."""
        order = torch.randperm(members, generator=generator).tolist()
        count = members if self.active is None else self.active
        drawn, rest = (tuple(sorted(part)) for part in (order[:count], order[count:]))
        if self.main == "all":
            return ActiveMembers(drawn + rest, (), progress)
        return ActiveMembers(drawn, rest if self.alpha == "all" else (), progress)

    def loss(self, batch: CoupledBatch) -> Tensor:
        """Return the mean loss plus the weighted agreement of the members drawn."""
        log_probs = batch.outputs[: self.active].log_softmax(-1)
        alpha = self._alpha(batch)
        if self.kernel == "a2d":
            pairs = (alpha * a2d_of_pairs(log_probs)).mean(1)
        else:
            pairs = alpha.mean() * divdis_mutual_information(log_probs, alpha)
        return batch.losses.mean() + self.weight * over_pairs(pairs, self.pair_norm)

    def _alpha(self, batch: CoupledBatch) -> Tensor:
        if self.alpha == "none":
            return torch.ones_like(batch.losses[0])
        averaged = slice(None) if self.alpha == "all" else slice(self.active)
        return sed_alpha(batch.outputs[averaged], batch.targets, self.floor)
