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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from torch import Tensor

from tepui.methods.sharpness_aware import SharpnessAware


@final
@dataclass(frozen=True, kw_only=True)
class SAM(SharpnessAware):
    """Sharpness-aware members.

    Attributes:
        rho: Length of the perturbation; one value, or one per member. Longer runs bear
            larger ones: in 12 epochs of CIFAR-10 0.05 lost 0.8 points and 0.02 0.3; in
            40, 0.02 cost nothing next to 0.05, and larger ones were worse.
        adaptive: Measure the perturbation relative to each weight (ASAM).
        update_statistics: Let the perturbed pass update BatchNorm's running
            statistics too.
        start_at: When perturbing begins, an epoch or a share of the run; plain
            gradients before.
    """

    def combined(
        self, here: Sequence[Tensor], perturbed: Sequence[Tensor]
    ) -> list[Tensor]:
        """Return the perturbed gradient."""
        return list(perturbed)
