"""Two moons: points of the plane in two classes that no line can part.

tepui train --data 'dataset.TwoMoons(noise=0.1)' --model MLP --out runs/moons
tepui evaluate runs/moons --data dataset.TwoMoons --corruptions none
"""

import math

import torch

from tepui.core import generator
from tepui.data import Arrays


class TwoMoons(Arrays):
    """Half circles that reach into each other."""

    def __init__(self, train: bool = True, samples: int = 400, noise: float = 0.2):
        stream = generator(0, "two moons", "train" if train else "test")
        labels = torch.arange(samples) % 2
        angles = math.pi * torch.rand(samples, generator=stream)
        side = 1 - 2 * labels
        x, y = side * angles.cos() + labels, side * angles.sin() + labels / 2
        points = torch.stack([x, y], dim=1)
        points += noise * torch.randn(points.shape, generator=stream)
        super().__init__(points, labels, classes=("upper", "lower"))
