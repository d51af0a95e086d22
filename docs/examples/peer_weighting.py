"""Peer weighting: a sample counts more for a member the more its peers lose on it.

    tepui train --method 'peer_weighting.PeerWeighting(power=0.5)' --out runs/peer

Before every epoch but the first each member tells the others its loss on every sample.
"""

from dataclasses import dataclass
from typing import final

import torch

from tepui.core import require
from tepui.methods import ExchangingMethod, Gradient
from tepui.sharpness import select


@final
@dataclass(frozen=True, kw_only=True)
class PeerWeighting(ExchangingMethod):
    power: float = 1.0

    def __post_init__(self):
        require(self.power >= 0, "power", "be non-negative", self.power)

    def start(self, member):  # on the member's device
        return {"weights": member.progress.new_ones(member.samples)}

    def exchanges_before(self, epoch, epochs):
        return epoch > 0

    @torch.no_grad()
    def publish(self, member, index, dataset, generator):
        batches = select(member.module, dataset, member.loss, batch_size=500)
        return torch.cat([member.losses(batch) for batch in batches])

    def receive(self, member, index, published, generator):
        peers = [losses for i, losses in enumerate(published) if i != index]
        lost = torch.stack(peers or [*published]).mean(0).add(0.01).pow(self.power)
        member.state["weights"].copy_(lost / lost.mean())

    def gradient(self, member, batch):
        weights = member.state["weights"][batch.index]
        loss = (member.losses(batch) * weights).mean()
        values = torch.autograd.grad(loss, member.parameters)
        return Gradient(loss.detach(), member.masked(values))
