r"""Sharpness-aware minimization of every member.

With :math:`g = \nabla L_B(\theta)` on a batch :math:`B`, a member descends along

.. math:: \hat g = \nabla L_B\left(\theta + \rho \, g / \lVert g \rVert_2\right),

taken with the same dropout masks. Weight decay belongs to the optimizer and enters
neither the perturbation nor the norm.

Differs from the paper: the weight-decay term is not part of the perturbed loss (as in
the released code of SharpBalance). Differs from that code: running statistics are not
updated by the perturbed pass unless ``update_statistics`` asks for it.

References:
    Foret et al., Sharpness-Aware Minimization for Efficiently Improving
    Generalization, ICLR 2021. Kwon et al., ASAM, ICML 2021.
"""

from dataclasses import dataclass
from typing import final

from tepui.core.checks import require
from tepui.core.per_member import per_member, values_of
from tepui.data.arrays import Batch
from tepui.methods.base import MemberMethod
from tepui.methods.member import Gradient, Member
from tepui.optim import sam_perturbation


@final
@dataclass(frozen=True, kw_only=True)
class SAM(MemberMethod):
    """Sharpness-aware members.

    Attributes:
        rho: Length of the perturbation; one value, or one per member.
        adaptive: Measure the perturbation relative to each weight (ASAM).
        update_statistics: Let the perturbed pass update BatchNorm's running
            statistics too.
    """

    rho: float | tuple[float, ...] = per_member(0.05)
    adaptive: bool = False
    update_statistics: bool = False

    def __post_init__(self) -> None:
        require(min(values_of(self.rho)) >= 0, "rho", "be non-negative", self.rho)

    def gradient(self, member: Member, batch: Batch) -> Gradient:
        """Return the loss here and the gradient at the perturbed weights."""
        return self.perturbed(member, batch, member.gradient(batch))

    def perturbed(self, member: Member, batch: Batch, here: Gradient) -> Gradient:
        """Return the same from a plain gradient that is there already.

        Args:
            member: The member.
            batch: The samples.
            here: Their loss and gradient at the member's weights.

        Returns:
            The loss here and the gradient at the perturbed weights.
        """
        assert not isinstance(self.rho, tuple), "resolve with for_member first"
        offsets = sam_perturbation(
            member.parameters, here.values, self.rho, self.adaptive
        )
        with member.moved(offsets, update_buffers=self.update_statistics):
            return Gradient(here.loss, member.gradient(batch).values)
