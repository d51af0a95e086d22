"""Deep ensembles: the same training from independent initializations.

References:
    Lakshminarayanan, Pritzel, Blundell, Simple and Scalable Predictive Uncertainty
    Estimation using Deep Ensembles, NeurIPS 2017.
"""

from dataclasses import dataclass
from typing import final

from tepui.data.arrays import Batch
from tepui.methods.base import MemberMethod
from tepui.methods.member import Gradient, Member


@final
@dataclass(frozen=True, kw_only=True)
class DeepEnsemble(MemberMethod):
    """Each member descends its own loss, with its own data order."""

    def gradient(self, member: Member, batch: Batch) -> Gradient:
        """Return the plain gradient."""
        return member.gradient(batch)
