r"""Surrogate-gap guided sharpness-aware minimization (GSAM).

With :math:`g = \nabla L(\theta)` and :math:`g_p = \nabla L(\theta + \rho_t g / \lVert g
\rVert)`, the part of :math:`g` orthogonal to :math:`g_p` is removed from the step:

.. math::
    g_\perp = g - \frac{\langle g, g_p \rangle}{\lVert g_p \rVert^2} g_p, \qquad
    \text{step along } g_p - \alpha g_\perp,

which lowers the gap :math:`L(\theta + e) - L(\theta)` without raising the perturbed
loss to first order. The radius follows the learning rate,
:math:`\rho_t = \rho_{min} + (\rho - \rho_{min}) \, \eta_t / \eta_{max}`.

Differs from the reference example: the perturbation is not adaptive by default, so that
GSAM differs from SAM by the decomposition alone, and the learning rate's smallest value
is taken as zero. The SharpBalance paper gives no values for its GSAM rows.

References:
    Zhuang et al., Surrogate Gap Minimization Improves Sharpness-Aware Training,
    ICLR 2022.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm

from tepui.core.checks import require
from tepui.core.per_member import per_member, values_of
from tepui.data.arrays import Batch
from tepui.methods.base import MemberMethod
from tepui.methods.member import Gradient, Member
from tepui.optim import EPSILON, sam_perturbation


def orthogonal_part(
    gradients: Sequence[Tensor], along: Sequence[Tensor]
) -> list[Tensor]:
    """Return the component of a gradient that is orthogonal to another.

    Example:
        >>> g, p = [torch.tensor([3.0, 4.0])], [torch.tensor([2.0, 0.0])]
        >>> orthogonal_part(g, p)
        [tensor([0., 4.])]
    """
    products = torch._foreach_mul(list(gradients), list(along))
    inner = torch.stack([product.sum() for product in products]).sum()
    scale = inner / (get_total_norm(list(along)).square() + EPSILON)
    return list(
        torch._foreach_sub(list(gradients), torch._foreach_mul(list(along), scale))
    )


@final
@dataclass(frozen=True, kw_only=True)
class GSAM(MemberMethod):
    """Sharpness-aware members that also close the surrogate gap.

    Attributes:
        rho: Length of the perturbation at the highest learning rate; one value, or one
            per member.
        rho_min: Length of the perturbation as the learning rate goes to zero; the same
            as ``rho`` by default.
        alpha: How much of the orthogonal component is removed; zero is SAM.
        adaptive: Measure the perturbation relative to each weight.
        update_statistics: Let the perturbed pass update BatchNorm's running statistics.
    """

    rho: float | tuple[float, ...] = per_member(0.2)
    rho_min: float | None = None
    alpha: float = 0.4
    adaptive: bool = False
    update_statistics: bool = False

    def __post_init__(self) -> None:
        require(min(values_of(self.rho)) >= 0, "rho", "be non-negative", self.rho)
        lowest = min(values_of(self.rho)) if self.rho_min is None else self.rho_min
        require(
            0 <= lowest <= min(values_of(self.rho)),
            "rho_min",
            f"lie between 0 and rho ({self.rho})",
            self.rho_min,
        )
        require(self.alpha >= 0, "alpha", "be non-negative", self.alpha)

    def gradient(self, member: Member, batch: Batch) -> Gradient:
        """Return the loss here and the decomposed gradient."""
        return self.perturbed(member, batch, member.gradient(batch))

    def perturbed(self, member: Member, batch: Batch, here: Gradient) -> Gradient:
        """Return the same from a plain gradient that is there already.

        Args:
            member: The member.
            batch: The samples.
            here: Their loss and gradient at the member's weights.

        Returns:
            The loss here and the decomposed gradient.
        """
        offsets = sam_perturbation(
            member.parameters, here.values, self._radius(member), self.adaptive
        )
        with member.moved(offsets, update_buffers=self.update_statistics):
            perturbed = member.gradient(batch).values
        if self.alpha == 0:
            return Gradient(here.loss, perturbed)
        orthogonal = orthogonal_part(here.values, perturbed)
        removed = torch._foreach_mul(orthogonal, self.alpha)
        return Gradient(here.loss, list(torch._foreach_sub(perturbed, removed)))

    def _radius(self, member: Member) -> float | Tensor:
        assert not isinstance(self.rho, tuple), "resolve with for_member first"
        if self.rho_min is None or self.rho_min == self.rho:
            return self.rho
        share = member.learning_rate / member.peak_learning_rate
        return self.rho_min + (self.rho - self.rho_min) * share
