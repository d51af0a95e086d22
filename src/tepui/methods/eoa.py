r"""Ensembles of averages (EoA): each member is a mean over the end of its trajectory.

Members train as those of a deep ensemble. Over the last share of the run their weights
are averaged (:mod:`tepui.training.averaging`), and the means predict. Any other method
is averaged by its own ``average``.

References:
    Arpit et al., Ensemble of Averages: Improving Model Selection and Boosting
    Performance in Domain Generalization, NeurIPS 2022.
"""

from dataclasses import dataclass
from typing import final

from tepui.data.arrays import Batch
from tepui.methods.base import MemberMethod
from tepui.methods.member import Gradient, Member


@final
@dataclass(frozen=True, kw_only=True)
class EoA(MemberMethod):
    """Each member descends its own loss and ends as the mean of its last weights."""

    average: float | None = 0.25

    def gradient(self, member: Member, batch: Batch) -> Gradient:
        """Return the plain gradient."""
        return member.gradient(batch)
