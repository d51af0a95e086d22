"""Three classes that overlap, and members that are too sure of them."""

import torch
from torch import nn

from tepui import Ensemble
from tepui.data import Arrays

CENTERS = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.5]])


def blobs(samples, seed=0, noise=1.0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (samples,), generator=generator)
    drawn = torch.randn(samples, 2, generator=generator)
    return Arrays(CENTERS[labels] + noise * drawn, labels)


def overconfident(members=3):
    """Members that know the classes and say so too loudly."""
    ensemble = Ensemble.build(lambda: nn.Linear(2, 3), members, seed=1)
    with torch.no_grad():
        for member in ensemble.members:
            member.weight.copy_(6 * CENTERS + member.weight)
    return ensemble
