"""BatchNorm with the sum and the ReLU that follow it, as one operation.

On a GPU such a chain is bound by memory: torch reads and writes the activations for
each of its operations. Kernels of our own read them once for the statistics, in
training, and once for the result, whatever the batch, so that nothing has to be
compiled anew when its size changes. Where gradients are needed in eval mode, and
everywhere else, the chain is torch's.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FUSED_TYPES = (torch.bfloat16, torch.float16, torch.float32)


def normalized(
    norm: nn.Module, x: Tensor, *, added: Tensor | None = None, relu: bool = True
) -> Tensor:
    """Return BatchNorm of ``x``, plus a tensor if given, then ReLU if wanted."""
    fits = _fits(norm, x, added)
    if fits and norm.training:
        values = (x, norm.weight, norm.bias, added, norm, relu)
        return _Normalized.apply(*values)  # type: ignore[no-any-return,no-untyped-call]
    if fits and not torch.is_grad_enabled():
        return _evaluated(norm, x, added, relu)
    out: Tensor = norm(x)
    out = out if added is None else out + added
    return F.relu(out) if relu else out


def is_plain_relu(module: nn.Module) -> bool:
    """Return whether nobody would notice that a ReLU was not called."""
    return type(module) is nn.ReLU and not hooked(module)


def _fits(norm: Any, x: Tensor, added: Tensor | None) -> bool:
    """Return whether the kernels do what the modules would."""
    return (
        x.is_cuda
        and type(norm) is nn.BatchNorm2d
        and norm.affine
        and norm.track_running_stats
        and norm.momentum is not None
        and norm.weight.dtype == torch.float32
        and x.dtype in FUSED_TYPES
        and x.ndim == 4
        and (x.numel() // x.shape[1] > 1 or not norm.training)
        and x.numel() < 2**31
        and (added is None or (added.dtype == x.dtype and added.shape == x.shape))
        and not hooked(norm)
        and not torch.compiler.is_compiling()
        and not torch._C._functorch.is_functorch_wrapped_tensor(x)
        and _kernels() is not None
    )


@cache
def _kernels() -> Any:
    """Return the kernels, None without Triton, as on most machines without a GPU."""
    if find_spec("triton") is None:
        return None
    return import_module("tepui.models.batch_norm_kernels")


def _evaluated(norm: Any, x: Tensor, added: Tensor | None, relu: bool) -> Tensor:
    """Return the result in eval mode, by the running statistics."""
    x = x.contiguous(memory_format=torch.channels_last)
    if added is not None:
        added = added.contiguous(memory_format=torch.channels_last)
    scale = (norm.running_var + norm.eps).rsqrt()
    out: Tensor = _kernels().applied(norm, x, norm.running_mean, scale, added, relu)
    return out


class _Normalized(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        added: Tensor | None,
        norm: nn.BatchNorm2d,
        relu: bool,
    ) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        if added is not None:
            added = added.contiguous(memory_format=torch.channels_last)
        made: tuple[Tensor, ...] = _kernels().forward(norm, x, added, relu)
        out, mean, scale = made
        ctx.relu, ctx.adds = relu, added is not None
        kept = out if relu and added is not None else None
        ctx.save_for_backward(x, weight, bias, mean, scale, kept)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, mean, scale, out = ctx.saved_tensors
        grad = grad.contiguous(memory_format=torch.channels_last)
        dx, dweight, dbias, dadded = _kernels().backward(
            grad, x, weight, bias, mean, scale, out, ctx.relu
        )
        if ctx.adds and dadded is None:
            dadded = grad
        return dx, dweight, dbias, dadded if ctx.adds else None, None, None


def hooked(module: nn.Module) -> bool:
    """Return whether calling a module does more than its forward pass."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or "forward" in vars(module)
    )
