"""What random vectors do to the loss: rises along offsets, curvatures."""

from collections.abc import Iterable

import torch
from torch import Tensor

from tepui.core.seeding import generator as seeded_generator
from tepui.sharpness.selection import Selection
from tepui.sharpness.weights import WeightVector, curvature_along


def rises(
    weights: WeightVector, batches: Selection, offsets: Iterable[Tensor]
) -> Tensor:
    """Return every sample's rise in loss after every offset, one pass for each."""

    def losses(vector: Tensor) -> Tensor:
        return torch.cat([weights.losses(vector, batch) for batch in batches])

    with torch.no_grad():
        start = losses(weights.vector)
        return torch.stack([losses(weights.vector + o) - start for o in offsets])


def curvatures_along(weights: WeightVector, batches: Selection, way: Tensor) -> Tensor:
    """Return the second derivative of every sample's loss along a vector."""
    parts = [
        curvature_along(weights.losses_on(batch), weights.vector, way)
        for batch in batches
    ]
    return torch.cat(parts)


def stream_or_default(generator: torch.Generator | None) -> torch.Generator:
    """Return a generator, by default one that draws the same at every call."""
    return seeded_generator("noise") if generator is None else generator


def normal_like(vector: Tensor, generator: torch.Generator) -> Tensor:
    """Return a standard normal vector, drawn on the generator's device."""
    drawn = torch.randn(
        vector.shape, generator=generator, device=generator.device, dtype=vector.dtype
    )
    return drawn.to(vector.device)


def uniform_like(vector: Tensor, generator: torch.Generator) -> Tensor:
    """Return a vector uniform in (-1, 1), drawn on the generator's device."""
    drawn = torch.rand(
        vector.shape, generator=generator, device=generator.device, dtype=vector.dtype
    )
    return 2 * drawn.to(vector.device) - 1


def signs_like(vector: Tensor, generator: torch.Generator) -> Tensor:
    """Return a vector of random signs, drawn on the generator's device."""
    drawn = torch.randint(2, vector.shape, generator=generator, device=generator.device)
    return (2 * drawn - 1).to(vector)
