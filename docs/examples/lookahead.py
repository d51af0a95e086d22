"""Lookahead: every few steps the weights fall back part of the way to slow ones.

    tepui train --method 'lookahead.Lookahead(every=5)' --out runs/lookahead

References: Zhang et al., Lookahead Optimizer: k steps forward, 1 step back, 2019.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from tepui.core import per_member, require, values_of
from tepui.data import Batch
from tepui.methods import Gradient, Member, MemberMethod


@final
@dataclass(frozen=True, kw_only=True)
class Lookahead(MemberMethod):
    every: int = 5
    share: float | tuple[float, ...] = per_member(0.5)

    def __post_init__(self) -> None:
        require(self.every > 0, "every", "be positive", self.every)
        inside = all(0 < share <= 1 for share in values_of(self.share))
        require(inside, "share", "lie in (0, 1]", self.share)

    def start(self, member: Member) -> dict[str, Tensor]:
        slow = {
            f"slow/{i}": p.detach().clone() for i, p in enumerate(member.parameters)
        }
        return {"steps": torch.zeros_like(member.progress), **slow}

    def gradient(self, member: Member, batch: Batch) -> Gradient:
        return member.gradient(batch)

    @torch.no_grad()
    def after_update(self, member: Member) -> None:
        due = member.state["steps"].add_(1) % self.every == 0  # a tensor, never read
        for i, fast in enumerate(member.parameters):
            slow = member.state[f"slow/{i}"]
            slow.copy_(torch.where(due, slow.lerp(fast, self.share), slow))
            fast.copy_(torch.where(due, slow, fast))
