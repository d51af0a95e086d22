r"""Diversify and disambiguate (DivDis): heads that are independent on unlabeled data.

With the mean outer product :math:`J^{hg} = \frac1U \sum_u p^h_u \, {p^g_u}^\top` of two
heads over unlabeled samples and its marginals :math:`\bar p^h` and :math:`\bar p^g`,
the members descend

.. math::
    \frac{1}{M} \sum_h \overline{L^h}
    + \lambda_1 \operatorname*{mean}_{h<g} \sum_{de} J^{hg}_{de}
      \log \frac{J^{hg}_{de}}{\bar p^h_d \, \bar p^g_e}
    + \lambda_2 \operatorname*{mean}_h \mathrm{KL}(\bar p^h \,\|\, \bar s),

where :math:`\bar s` is the mean prediction of all heads on the labeled batch, held
fixed; the last term keeps heads from collapsing on one class. The mutual information is
a quantity of the whole batch, and biased upwards by small ones.

Differs from the released code: the batch is contracted inside the product, so that
memory grows with heads² × classes² and not with the batch; probabilities are kept above
``1e-12`` inside logarithms; pairs whose information is exactly zero count in the mean.
The stage that picks one head by queries is left to the user. The default weights are
not the paper's, which chose them for data with a shortcut: 10 and 10 lost 12 points on
flights of another season. On photographs of an unseen domain the defaults lost 4.6
(three seeds).

References:
    Lee, Yao and Finn, Diversify and Disambiguate: Out-of-Distribution Robustness via
    Disagreement, ICLR 2023.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.methods.a2d import pairs_of
from tepui.methods.coupled import ActiveMembers, CoupledBatch, CoupledMethod

# Probabilities inside logarithms are at least this.
SMALLEST = 1e-12


def divdis_mutual_information(
    log_probs: Tensor, weights: Tensor | None = None
) -> Tensor:
    """Return the mutual information of every pair of heads over a batch.

    Example:
        >>> sure = torch.eye(4).clamp(min=1e-9).log()
        >>> divdis_mutual_information(torch.stack([sure, sure])).exp()
        tensor([4.])
    """
    require(
        log_probs.ndim == 3 and log_probs.shape[-1] > 1,
        "log_probs",
        "have shape (heads, samples, classes), with two classes or more",
        tuple(log_probs.shape),
    )
    probs = log_probs.exp()
    weighted = _weighted(probs, weights)
    first, second = pairs_of(len(probs), probs.device)
    joint = torch.einsum("psd,pse->pde", weighted[first], probs[second])
    # Joint and marginals sum to one whatever the logits, so that the logarithm's own
    # derivative vanishes: it needs no graph, and the batch's memory stays small.
    with torch.no_grad():
        marginal = _log(weighted.sum(1))
        ratio = _log(joint).sub_(marginal[first, :, None]).sub_(marginal[second, None])
    return torch.einsum("pde,pde->p", joint, ratio)


def divdis_regularizer(log_probs: Tensor, log_source: Tensor) -> Tensor:
    """Return how far the heads' class frequencies are from those of labeled data.

    Example:
        >>> even, one = torch.full((1, 1, 2), 0.5), torch.tensor([[[1.0, 0.0]]])
        >>> divdis_regularizer(one.log(), even.log()).exp()
        tensor(2.)
    """
    mean = log_probs.exp().mean(1)
    source = log_source.detach().exp().mean((0, 1))
    return (mean * (_log(mean) - _log(source))).sum(-1).mean()


@final
@dataclass(frozen=True, kw_only=True)
class DivDis(CoupledMethod):
    """Members whose predictions on unlabeled data are statistically independent.

    Attributes:
        base: The sharpness-aware step of each member, such as ``SAM(rho=0.05)``; None
            descends the joint loss itself.
        weight: Weight of the mutual information; only labeled samples like the
            unlabeled ones can tell which is right.
        regularizer: Weight of the divergence from the labeled data's classes.
    """

    weight: float = 0.003
    regularizer: float = 0.003

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.weight >= 0, "weight", "be non-negative", self.weight)
        require(
            self.regularizer >= 0, "regularizer", "be non-negative", self.regularizer
        )

    @property
    def needs_unlabeled(self) -> bool:
        """Members differ on data of their own."""
        return True

    @property
    def compares_classes(self) -> bool:
        """Members are compared by their probabilities of classes."""
        return True

    def check_members(self, members: int) -> None:
        """Raise unless there are two members to differ."""
        require(members > 1, "members", "be at least 2 for DivDis", members)

    def turn(
        self, members: int, progress: float, generator: torch.Generator
    ) -> ActiveMembers:
        """Return all members."""
        return ActiveMembers(tuple(range(members)), (), progress)

    def loss(self, batch: CoupledBatch) -> Tensor:
        """Return mean loss, mutual information and regularizer, weighted."""
        assert batch.unlabeled is not None
        log_probs = batch.unlabeled.log_softmax(-1)
        information = divdis_mutual_information(log_probs).mean()
        leaning = divdis_regularizer(log_probs, batch.outputs.log_softmax(-1))
        main = batch.losses.mean()
        return main + self.weight * information + self.regularizer * leaning


def _weighted(probs: Tensor, weights: Tensor | None) -> Tensor:
    if weights is None:
        return probs / probs.shape[1]
    return probs * (weights / weights.sum().clamp(min=SMALLEST))[:, None]


def _log(probs: Tensor) -> Tensor:
    return probs.clamp(min=SMALLEST).log()
