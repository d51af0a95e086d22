"""Negative correlation learning: members are rewarded for leaving their mean.

    tepui train \
        --method 'negative_correlation.NegativeCorrelation(base=SAM(rho=0.05))' \
        --out runs/negative_correlation

With probabilities p of M members and their mean q, the members descend the mean of
their losses less `weight` times the mean of |p - q|^2. Differs from the paper: the
members classify, and q moves with them.

References: Liu and Yao, Ensemble Learning via Negative Correlation, 1999.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from tepui.core import require
from tepui.methods import ActiveMembers, CoupledBatch, CoupledMethod


@final
@dataclass(frozen=True, kw_only=True)
class NegativeCorrelation(CoupledMethod):
    weight: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.weight >= 0, "weight", "be non-negative", self.weight)

    def check_members(self, members: int) -> None:
        require(members >= 2, "members", "be at least 2 to differ", members)

    def turn(
        self, members: int, progress: float, generator: torch.Generator
    ) -> ActiveMembers:
        return ActiveMembers(tuple(range(members)), (), progress)

    def loss(self, batch: CoupledBatch) -> Tensor:
        probs = batch.outputs.softmax(-1)
        spread = (probs - probs.mean(0)).square().sum(-1).mean()
        return batch.losses.mean() - self.weight * spread
