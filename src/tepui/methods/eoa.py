r"""Ensemble of averages: every member predicts with a running mean of its weights.

From a point in the run on, after every update :math:`t`,

.. math:: \bar\theta \leftarrow \frac{c \, \bar\theta + \theta_t}{1 + c},
    \qquad c = 1, 2, \dots,

where :math:`\bar\theta` starts as a copy of the weights, which counts as one of them.
Buffers of floating type (BatchNorm's running statistics) are averaged alike, or
estimated anew from the training data at the end. Training itself is plain.

Differs from the original, which fine-tunes a pretrained network and averages from the
100th update: here averaging starts at a share of the run, by default where the usual
schedule makes its last step. The SharpBalance paper gives no values for its EoA row.

References:
    Arpit et al., Ensemble of Averages: Improving Model Selection and Boosting
    Performance in Domain Generalization, NeurIPS 2022.
"""

from dataclasses import dataclass
from typing import Any, Literal, final, get_args

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import one_of, require
from tepui.data.arrays import Batch
from tepui.methods.base import MemberMethod
from tepui.methods.member import Gradient, Member
from tepui.modules.running import reestimate_batchnorm

Statistics = Literal["averaged", "estimated"]


@final
@dataclass(frozen=True, kw_only=True)
class EoA(MemberMethod):
    """Members whose weights are averaged over the last part of the run.

    Attributes:
        start_at: Share of the run after which averaging starts.
        statistics: Whether BatchNorm's running statistics are averaged like weights or
            estimated anew at the end.
    """

    start_at: float = 0.75
    statistics: Statistics = "averaged"

    def __post_init__(self) -> None:
        share = self.start_at
        require(0 <= share < 1, "start_at", "be a share in [0, 1)", share)
        one_of("statistics", self.statistics, get_args(Statistics))

    def gradient(self, member: Member, batch: Batch) -> Gradient:
        """Return the plain gradient."""
        return member.gradient(batch)

    def after_update(self, member: Member) -> None:
        """Take the weights into the average."""
        averaged = _averaged(member)
        if "count" not in member.state:
            member.state["count"] = torch.zeros_like(member.progress)
            for number, tensor in enumerate(averaged):
                member.state[f"average/{number}"] = tensor.detach().clone()
        started = (member.progress >= self.start_at).to(member.progress.dtype)
        count = member.state["count"]
        count.add_(started)
        means = [member.state[f"average/{n}"] for n in range(len(averaged))]
        with torch.no_grad():
            steps = torch._foreach_sub([t.detach() for t in averaged], means)
            torch._foreach_mul_(steps, 1 / (1 + count))
            torch._foreach_add_(means, steps)

    def finish(self, member: Member, dataset: Dataset[Any]) -> None:
        """Put the average in the place of the last weights."""
        averaged = _averaged(member)
        means = [member.state[f"average/{n}"] for n in range(len(averaged))]
        with torch.no_grad():
            for tensor, mean in zip(averaged, means, strict=True):
                tensor.copy_(mean)
        if self.statistics == "estimated":
            reestimate_batchnorm(member.module, dataset)


def _averaged(member: Member) -> list[Tensor]:
    """Return trainable parameters and buffers of floating type, in a fixed order."""
    buffers = [buffer for buffer in member.buffers if buffer.is_floating_point()]
    return [*member.parameters, *buffers]
