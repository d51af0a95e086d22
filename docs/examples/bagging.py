"""Bagging: every member learns from a bootstrap sample of its own.

    tepui train --method 'bagging.Bagging(share=0.5)' --out runs/bagged

References: Breiman, Bagging Predictors, 1996.
"""

from dataclasses import dataclass
from typing import final

import torch

from tepui.core import generator, require
from tepui.methods import Gradient, MemberMethod


@final
@dataclass(frozen=True, kw_only=True)
class Bagging(MemberMethod):
    share: float = 1.0  # how many samples are drawn, of as many as there are

    def __post_init__(self):
        require(self.share > 0, "share", "be positive", self.share)

    def start(self, member):  # from the member's seed, so that every bag differs
        draws = max(1, round(self.share * member.samples))
        stream = generator(member.seed, "bootstrap")
        drawn = torch.randint(member.samples, (draws,), generator=stream)
        counts = torch.bincount(drawn, minlength=member.samples)
        return {"counts": counts.to(member.progress) * member.samples / draws}

    def gradient(self, member, batch):
        losses = member.losses(batch)
        drawn = losses * member.state["counts"][batch.index]
        values = torch.autograd.grad(drawn.mean(), member.parameters)
        return Gradient(losses.detach().mean(), member.masked(values))
