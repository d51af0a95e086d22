"""Weights for passes in half precision, cast all at once.

Autocast casts every weight by a kernel of its own, and every gradient back by another:
a sixth of the launches of a step of ResNet-18. Here one kernel casts all of them. The
values are the same.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from tepui.core import foreach

CAST_BY_AUTOCAST = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)


class CastModule:
    """A module that is called with copies of its weights in another type."""

    def __init__(self, module: nn.Module, dtype: torch.dtype) -> None:
        self._module = module
        self._weights = weights_to_cast(module)
        self._dtype = dtype

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Call the module; gradients reach its own weights, in their own type."""
        weights = self._weights.values()
        copies = _Cast.apply(self._dtype, *weights)  # type: ignore[no-untyped-call]
        given = dict(zip(self._weights, copies, strict=True))
        return functional_call(self._module, given, inputs, named)


def weights_to_cast(module: nn.Module) -> Mapping[str, nn.Parameter]:
    """Return the trainable float32 weights that only a layer of a known kind uses."""
    named = list(module.named_parameters(remove_duplicate=False))
    uses = [id(parameter) for _, parameter in named]
    own = {
        f"{path}.{name}" if path else name
        for path, part in module.named_modules()
        if type(part) in CAST_BY_AUTOCAST
        for name in part._parameters
    }
    return {
        name: parameter
        for name, parameter in named
        if name in own
        and parameter.requires_grad
        and parameter.dtype == torch.float32
        and uses.count(id(parameter)) == 1
    }


class _Cast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.weights = weights
        copies = [torch.empty_like(weight, dtype=dtype) for weight in weights]
        foreach.copy_(copies, weights)
        return tuple(copies)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        found = [
            None if grad is None else torch.empty_like(weight)
            for weight, grad in zip(ctx.weights, grads, strict=True)
        ]
        pairs = [
            (target, grad)
            for target, grad in zip(found, grads, strict=True)
            if target is not None and grad is not None
        ]
        # One kernel serves only tensors that are laid out alike.
        alike = [pair for pair in pairs if pair[0].stride() == pair[1].stride()]
        foreach.copy_([pair[0] for pair in alike], [pair[1] for pair in alike])
        for target, grad in pairs:
            if target.stride() != grad.stride():
                target.copy_(grad)
        return None, *found
