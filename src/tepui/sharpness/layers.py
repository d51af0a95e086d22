r"""Per-sample gradients of a layer's parameters, from its inputs and output gradients.

For a linear layer with inputs :math:`a_t` and output gradients :math:`g_t` at positions
:math:`t` of one sample, the sample's weight gradient is :math:`\sum_t g_t a_t^\top` and

.. math::
    \Big\lVert \sum_t g_t a_t^\top \Big\rVert^2
    = \sum_{t, t'} (g_t^\top g_{t'}) (a_t^\top a_{t'}),

so its squared norm follows from two Gram matrices without the gradient; where a layer
has more positions than channels the product itself is cheaper. A convolution is a
linear layer on the patches of its input.

References:
    Goodfellow, Efficient Per-Example Gradient Computations, 2015. Rochette et al.,
    Efficient Per-Example Gradient Computations in Convolutional Neural Networks, 2019.
"""

from collections.abc import Callable, Collection
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Elements of all patches or products at a time; larger batches are taken in parts.
WORKING_ELEMENTS = 2**26

NORMS = (nn.modules.batchnorm._BatchNorm, nn.LayerNorm, nn.GroupNorm)
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d)


def has_rule(module: nn.Module) -> bool:
    """Return whether there is a rule here for a module's per-sample gradients."""
    if type(module) in CONVOLUTIONS:
        return module.padding_mode == "zeros"
    if type(module) is nn.Embedding:
        plain = module.max_norm is None and not module.scale_grad_by_freq
        return plain and not module.sparse
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        batch_norms = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
        return type(module) in batch_norms and module.track_running_stats
    return type(module) in (nn.Linear, nn.LayerNorm, nn.GroupNorm)


def squared_norms(
    module: nn.Module,
    inputs: Tensor,
    grads: Tensor,
    names: Collection[str],
    mask: Tensor | None = None,
) -> Tensor:
    """Return each sample's squared gradient norm over some parameters of a layer."""
    if type(module) is nn.Embedding:
        return _embedding_norm(module, inputs, grads)
    if type(module) is nn.BatchNorm2d and (fused := _fused(grads)):
        norms: Tensor = fused.batch_norm_norms(module, inputs, grads, names)
        return norms
    if isinstance(module, NORMS):
        parts = gradients(module, inputs, grads, names).values()
        return torch.stack([part.square().flatten(1).sum(1) for part in parts]).sum(0)
    shares = []
    if "weight" in names:
        shares.append(_weight_norm(module, inputs, grads, mask))
    if "bias" in names:
        shares.append(_bias_gradient(module, grads).square().sum(1))
    return torch.stack(shares).sum(0)


def gradients(
    module: nn.Module, inputs: Tensor, grads: Tensor, names: Collection[str]
) -> dict[str, Tensor]:
    """Return each sample's gradient of some parameters of a layer."""
    rule: Callable[[Any, Tensor, Tensor], dict[str, Tensor]]
    if type(module) is nn.Embedding:
        rule = _embedding_gradient
    elif isinstance(module, NORMS):
        rule = _norm_gradients
    else:
        rule = _linear_gradients
    by_name = rule(module, inputs, grads)
    return {name: by_name[name] for name in names}


def _linear_gradients(module: Any, inputs: Tensor, grads: Tensor) -> dict[str, Tensor]:
    left, right = _matrices(module, inputs, grads, in_order=True)
    weight = torch.matmul(_wide(left), _wide(right)).flatten(1)
    return {
        "weight": weight.view(-1, *module.weight.shape),
        "bias": _bias_gradient(module, grads),
    }


def _bias_gradient(module: Any, grads: Tensor) -> Tensor:
    if type(module) is nn.Linear:
        return _wide(grads).reshape(len(grads), -1, grads.shape[-1]).sum(1)
    return _wide(grads).flatten(2).sum(2)


def _weight_norm(
    module: Any, inputs: Tensor, grads: Tensor, mask: Tensor | None
) -> Tensor:
    """Return squared weight gradients, a part of the samples at a time."""
    plain = type(module) is nn.Conv2d and module.groups == 1
    if plain and (fused := _fused(grads)):
        left, _, top, _ = _padding(module)
        corner = (top, left)
        whole: Tensor = fused.convolution_norms(module, inputs, grads, corner, mask)
        return whole
    positions = grads[0].numel() // len(module.weight)
    columns = module.weight[0].numel()
    elements = max(positions, len(module.weight)) * columns * _groups(module)
    size = max(1, WORKING_ELEMENTS // elements)
    norms = [
        _product_norm(*_matrices(module, some, part))
        if mask is None
        else _masked_norm(module, some, part, mask)
        for some, part in zip(inputs.split(size), grads.split(size), strict=True)
    ]
    return torch.cat(norms) if len(norms) > 1 else norms[0]


def _fused(grads: Tensor) -> Any:
    """Return the kernels that serve a tensor, None where there are none."""
    return _kernels() if grads.is_cuda and grads.dtype != torch.float64 else None


@cache
def _kernels() -> Any:
    if find_spec("triton") is None:
        return None
    return import_module("tepui.sharpness.fused")


def _groups(module: Any) -> int:
    return 1 if type(module) is nn.Linear else int(module.groups)


def _matrices(
    module: Any, inputs: Tensor, grads: Tensor, *, in_order: bool = False
) -> tuple[Tensor, Tensor]:
    """Return factors whose product is each sample's weight gradient."""
    samples = len(inputs)
    inputs = inputs.to(grads.dtype)
    if type(module) is nn.Linear:
        left = grads.reshape(samples, -1, grads.shape[-1]).transpose(1, 2)
        return left[:, None], inputs.reshape(samples, 1, -1, inputs.shape[-1])
    left = grads.reshape(samples, module.groups, -1, grads[0, 0].numel())
    return left, _patches(module, inputs, grads.shape[2:], in_order)


def _patches(
    module: Any, inputs: Tensor, out_shape: torch.Size, in_order: bool
) -> Tensor:
    """Return every patch of a convolution's input as a row, copied once.

    The copy keeps the input's innermost axis innermost: channels where they come last
    in memory, positions elsewhere.
    """
    padded = F.pad(inputs, _padding(module))
    samples, channels = padded.shape[:2]
    batch, channel, *steps = padded.stride()
    moves = [s * step for s, step in zip(module.stride, steps, strict=True)]
    taps = [d * step for d, step in zip(module.dilation, steps, strict=True)]
    width = channels // module.groups
    head = (samples, module.groups)
    heads = (batch, width * channel)
    positions = out_shape.numel()
    if channel == 1 and not in_order:
        view = padded.as_strided(
            (*head, *out_shape, *module.kernel_size, width),
            (*heads, *moves, *taps, channel),
        )
        return view.reshape(*head, positions, -1)
    view = padded.as_strided(
        (*head, width, *module.kernel_size, *out_shape),
        (*heads, channel, *taps, *moves),
    )
    return view.reshape(*head, -1, positions).transpose(2, 3)


def _padding(module: Any) -> list[int]:
    """Return the padding as ``F.pad`` takes it, last axis first."""
    if isinstance(module.padding, str):
        return list(module._reversed_padding_repeated_twice)
    return [amount for size in reversed(module.padding) for amount in (size, size)]


def _product_norm(left: Tensor, right: Tensor) -> Tensor:
    """Return the squared Frobenius norm of each sample's ``left @ right``."""
    out, positions, inner = left.shape[2], left.shape[3], right.shape[3]
    if positions == 1:
        lengths = _wide(left).square().sum((2, 3)) * _wide(right).square().sum((2, 3))
        return lengths.sum(1)
    if _gram_is_cheaper(out, positions, inner):
        first = torch.matmul(left.transpose(2, 3), left)
        second = torch.matmul(right, right.transpose(2, 3))
        return (_wide(first) * _wide(second)).flatten(1).sum(1)
    return _wide(torch.matmul(left, right)).square().flatten(1).sum(1)


def _masked_norm(module: Any, inputs: Tensor, grads: Tensor, mask: Tensor) -> Tensor:
    weight = _linear_gradients(module, inputs, grads)["weight"]
    return (weight * mask).square().flatten(1).sum(1)


def _gram_is_cheaper(out: int, positions: int, columns: int) -> bool:
    """Whether two Gram matrices cost less than the ``out`` by ``columns`` product."""
    return positions * (out + columns) < out * columns


def _norm_gradients(module: Any, inputs: Tensor, grads: Tensor) -> dict[str, Tensor]:
    """Return gradients of a normalization's scale and shift."""
    inputs, grads = _wide(inputs), _wide(grads)
    if isinstance(module, nn.LayerNorm):
        normal = F.layer_norm(inputs, module.normalized_shape, eps=module.eps)
        shape = module.normalized_shape
        scaled = (grads * normal).reshape(len(grads), -1, *shape).sum(1)
        return {"weight": scaled, "bias": grads.reshape(len(grads), -1, *shape).sum(1)}
    if isinstance(module, nn.GroupNorm):
        normal = F.group_norm(inputs, module.num_groups, eps=module.eps)
    else:
        normal = F.batch_norm(
            inputs, module.running_mean, module.running_var, eps=module.eps
        )
    scaled = grads * normal
    if grads.ndim == 2:
        return {"weight": scaled, "bias": grads}
    return {"weight": scaled.flatten(2).sum(2), "bias": grads.flatten(2).sum(2)}


def _embedding_norm(module: Any, inputs: Tensor, grads: Tensor) -> Tensor:
    """Sum over pairs of positions that look up the same row."""
    index = _by_position(inputs)
    rows = _kept_rows(module, index, grads)
    same = index[:, :, None] == index[:, None, :]
    products: Tensor = torch.matmul(rows, rows.transpose(1, 2)) * same
    return products.flatten(1).sum(1)


def _embedding_gradient(
    module: Any, inputs: Tensor, grads: Tensor
) -> dict[str, Tensor]:
    index = _by_position(inputs)
    rows = _kept_rows(module, index, grads)
    gradient = rows.new_zeros(len(rows), *module.weight.shape)
    gradient.scatter_add_(1, index[:, :, None].expand_as(rows), rows)
    return {"weight": gradient}


def _by_position(index: Tensor) -> Tensor:
    """Return indices of any shape as ``(samples, positions)``, of a type to scatter."""
    return index.reshape(len(index), -1).long()


def _kept_rows(module: Any, index: Tensor, grads: Tensor) -> Tensor:
    """Return output gradients by position, zero where the padding row is looked up."""
    rows = _wide(grads).reshape(*index.shape, -1)
    if module.padding_idx is None:
        return rows
    kept: Tensor = index != module.padding_idx
    return rows * kept[:, :, None]


def _wide(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()
