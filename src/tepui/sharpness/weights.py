"""A model's losses as a function of its weights, which themselves stay as they are.

What random vectors do to the loss follows: rises along offsets, and curvatures.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from tepui.core import foreach
from tepui.core.checks import require
from tepui.core.seeding import generator as seeded_generator
from tepui.data.arrays import Batch
from tepui.losses import Loss
from tepui.modules.pruning import masks_of
from tepui.modules.running import as_taken, forward
from tepui.sharpness.measurement import Selection

Parameters = dict[str, Tensor]


def trainable(model: nn.Module) -> Parameters:
    """Return a model's trainable parameters by name, detached."""
    named = {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}
    require(len(named) > 0, "model", "have trainable parameters", "none")
    return named


def outputs_at(model: nn.Module) -> Callable[[Parameters, Batch], Tensor]:
    """Return a model's outputs as a function of some of its tensors."""

    def outputs(values: Parameters, batch: Batch) -> Tensor:
        def call(*arguments: Tensor, **keywords: Tensor) -> Any:
            return functional_call(model, values, arguments, keywords)

        with _TwiceDifferentiable():
            returned = forward(call, as_taken(model, batch.inputs))
        return returned.float() if returned.dtype.itemsize < 4 else returned

    return outputs


class _TwiceDifferentiable(TorchFunctionMode):
    """Weight norm by its formula: torch's kernel has a wrong second derivative."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is torch._weight_norm:
            func = _weight_norm
        return func(*args, **(kwargs or {}))


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    return v * (g / torch.norm_except_dim(v, 2, dim))


def losses_at(model: nn.Module, loss: Loss) -> Callable[[Parameters, Batch], Tensor]:
    """Return a model's per-sample losses as a function of some of its tensors."""
    outputs = outputs_at(model)
    return lambda values, batch: loss(outputs(values, batch), batch.targets)


def along(
    function: Callable[[Any], Tensor], here: Any, way: Any, order: int
) -> tuple[Tensor, Tensor]:
    r"""Return a function's values and their derivatives of an order along a direction.

    Backward passes only: torch's second forward derivative of LayerNorm is wrong. The
    derivative of :math:`\sum_i u_i f_i(x + a v)` in :math:`a` is linear in :math:`u`,
    so that one backward pass to :math:`u` gives that of every value.

    Args:
        function: Returns any number of values.
        here: The point, a tensor or a collection of tensors.
        way: The direction, of the same structure.
        order: One for slopes, two for curvatures.

    Returns:
        Values and derivatives, detached.
    """
    with torch.enable_grad():
        step = tree_leaves(here)[0].new_zeros((), requires_grad=True)
        values = function(tree_map(lambda x, v: x + step * v, here, way))
        u = torch.ones_like(values, requires_grad=True)
        # The zero keeps derivatives that are constant connected to step and u.
        total = (u * (values + 0 * step**order)).sum()
        for _ in range(order):
            (total,) = torch.autograd.grad(total, step, create_graph=True)
        (derivatives,) = torch.autograd.grad(total, u)
    return values.detach(), derivatives


def curvature_along(function: Callable[[Any], Tensor], here: Any, way: Any) -> Tensor:
    r"""Return the second derivative :math:`v^\top \nabla^2 f(x) \, v`.

    Example:
        >>> curvature_along(lambda x: x.pow(3), torch.tensor(2.0), torch.tensor(1.0))
        tensor(12.)
    """
    return along(function, here, way, order=2)[1]


def normalized_logits(outputs: Tensor) -> Tensor:
    """Return logits less their mean, divided by their norm."""
    centered = outputs - outputs.mean(dim=1, keepdim=True)
    length: Tensor = centered.norm(dim=1, keepdim=True).clamp_min(1e-10)
    return centered / length


class WeightVector:
    """A model's trainable parameters as one vector; the model is left unchanged.

    Args:
        model: The model.
        loss: Returns one loss per sample.
        normalize_logits: Divide logits by their norm first, so that their scale does
            not count.

    Attributes:
        vector: The weights as they are.
        masked: Whether the model is pruned; what it lost may not move.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        *,
        normalize_logits: bool = False,
    ) -> None:
        self._values = values = trainable(model)
        self._masks = {n: m for n, m in masks_of(model).items() if n in values}
        self.masked = bool(self._masks)
        self._sizes = [value.numel() for value in values.values()]
        self._outputs = outputs_at(model)
        self._loss = loss
        self._normalize = normalized_logits if normalize_logits else None
        self.vector = torch.cat([v.flatten() for v in foreach.wide(values.values())])

    def by_name(self, vector: Tensor) -> Parameters:
        """Split a vector into tensors of the parameters' shapes.

        Args:
            vector: As many numbers as :attr:`vector` has.

        Returns:
            Tensors by parameter name.
        """
        parts = vector.split(self._sizes)
        return {
            name: part.view(value.shape).to(value.dtype)
            for (name, value), part in zip(self._values.items(), parts, strict=True)
        }

    def outputs(self, vector: Tensor, batch: Batch) -> Tensor:
        """Return the model's outputs at other weights.

        Args:
            vector: The weights, of the shape of :attr:`vector`.
            batch: The samples.

        Returns:
            One row per sample, in at least 32 bits.
        """
        logits = self._outputs(self.by_name(vector), batch)
        return logits if self._normalize is None else self._normalize(logits)

    def losses(self, vector: Tensor, batch: Batch) -> Tensor:
        """Return one loss per sample at other weights.

        Args:
            vector: The weights, of the shape of :attr:`vector`.
            batch: The samples.

        Returns:
            Shape ``(samples,)``.
        """
        return self._loss(self.outputs(vector, batch), batch.targets)

    def losses_on(self, batch: Batch) -> Callable[[Tensor], Tensor]:
        """Return the losses of one batch as a function of the weights.

        Args:
            batch: The samples.

        Returns:
            A function of a vector, for ``torch.func``.
        """
        return partial(self.losses, batch=batch)

    def scale(self, *, adaptive: bool = False) -> Tensor:
        """Return how far each weight may move.

        Args:
            adaptive: By its own size instead of by one.

        Returns:
            The shape of :attr:`vector`; zero for pruned weights.
        """
        far = self.vector.abs() if adaptive else torch.ones_like(self.vector)
        if not self.masked:
            return far
        named = self._values.items()
        kept = [self._masks.get(name, torch.ones_like(v)) for name, v in named]
        return far * torch.cat([mask.flatten() for mask in kept])


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
    return _drawn(torch.randn, vector, generator)


def uniform_like(vector: Tensor, generator: torch.Generator) -> Tensor:
    """Return a vector uniform in (-1, 1), drawn on the generator's device."""
    return 2 * _drawn(torch.rand, vector, generator) - 1


def _drawn(draw: Any, vector: Tensor, generator: torch.Generator) -> Tensor:
    how = {"generator": generator, "device": generator.device, "dtype": vector.dtype}
    drawn: Tensor = draw(vector.shape, **how)
    return drawn.to(vector.device)


def signs_like(vector: Tensor, generator: torch.Generator) -> Tensor:
    """Return a vector of random signs, drawn on the generator's device."""
    drawn = torch.randint(2, vector.shape, generator=generator, device=generator.device)
    return (2 * drawn - 1).to(vector)
