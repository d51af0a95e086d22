r"""Per-sample gradients of a layer's parameters, from its inputs and output gradients.

For a linear layer with inputs :math:`a_t` and output gradients :math:`g_t` at positions
:math:`t` of one sample, the sample's weight gradient is :math:`\sum_t g_t a_t^\top` and

.. math::
    \Big\lVert \sum_t g_t a_t^\top \Big\rVert^2
    = \sum_{t, t'} (g_t^\top g_{t'}) (a_t^\top a_{t'}),

so its squared norm follows from two Gram matrices without the gradient; where a layer
has more positions than channels the product itself is cheaper. A convolution is a
linear layer on the patches of its input.

In a table whose rows are looked up by index, a sample's gradient of a row is the sum of
the output gradients :math:`g_t` at the positions :math:`t` that look it up, so that

.. math:: \lVert \nabla W \rVert^2 = \sum_{t, t'} [i_t = i_{t'}] \; g_t^\top g_{t'}.

References:
    Goodfellow, Efficient Per-Example Gradient Computations, 2015. Rochette et al.,
    Efficient Per-Example Gradient Computations in Convolutional Neural Networks, 2019.
"""

from collections.abc import Collection
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# For so few, as in the check of a new model, no kernel is worth its compiling.
FEW_SAMPLES = 2
# Elements of all patches or products at a time; larger batches are taken in parts.
WORKING_ELEMENTS = 2**26

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
SCALES = (*BATCH_NORMS, nn.LayerNorm, nn.RMSNorm, nn.GroupNorm)
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
RULES = frozenset({*SCALES, *CONVOLUTIONS, nn.Linear, nn.Embedding})


def has_rule(module: nn.Module) -> bool:
    """Return whether there is a rule here for a module's per-sample gradients."""
    if type(module) in BATCH_NORMS:
        return bool(module.track_running_stats)
    if type(module) is nn.Embedding:
        return module.max_norm is None  # others change their weight in a pass
    return type(module) in RULES


def shows_samples(module: nn.Module, inputs: tuple[Any, ...], samples: int) -> bool:
    """Return whether a call of a layer shows the samples one by one."""
    first = inputs[0]
    return first.ndim >= _fewest_axes(module) and len(first) == samples


def squared_norms(
    module: nn.Module,
    inputs: tuple[Any, ...],
    grads: Tensor,
    names: Collection[str],
    mask: Tensor | None = None,
) -> Tensor:
    """Return each sample's squared gradient norm over some parameters of a layer."""
    if type(module) is nn.Embedding:
        return embedding_norms(module, inputs[0], grads)
    if type(module) is nn.BatchNorm2d and (fused := _fused(grads)):
        norms: Tensor = fused.batch_norm_norms(module, inputs[0], grads, names)
        return norms
    if type(module) in SCALES:
        parts = gradients(module, inputs, grads, names).values()
        return torch.stack([part.square().flatten(1).sum(1) for part in parts]).sum(0)
    shares = []
    if "weight" in names:
        shares.append(_weight_norm(module, inputs[0], grads, mask))
    if "bias" in names:
        shares.append(_bias_gradient(module, grads).square().sum(1))
    return torch.stack(shares).sum(0)


def gradients(
    module: nn.Module, inputs: tuple[Any, ...], grads: Tensor, names: Collection[str]
) -> dict[str, Tensor]:
    """Return each sample's gradient of some parameters of a layer."""
    kind, first = type(module), inputs[0]
    if kind is nn.Embedding:
        by_name = {"weight": embedding_gradient(module, first, grads)}
    elif kind in SCALES:
        by_name = _scale_gradients(module, first, grads)
    else:
        by_name = _linear_gradients(module, first, grads)
    return {name: by_name[name] for name in names}


def _fewest_axes(module: Any) -> int:
    """Return how many axes inputs of a layer have at least, that of samples included.

    Example:
        >>> _fewest_axes(nn.Conv2d(1, 1, 3)), _fewest_axes(nn.Linear(1, 1))
        (4, 2)
    """
    if type(module) in CONVOLUTIONS:
        return 2 + len(module.kernel_size)
    if type(module) in (nn.LayerNorm, nn.RMSNorm):
        return 1 + len(module.normalized_shape)
    return 1 if type(module) is nn.Embedding else 2


def _linear_gradients(module: Any, inputs: Tensor, grads: Tensor) -> dict[str, Tensor]:
    left, right = _matrices(module, inputs, grads, in_order=True)
    weight = torch.matmul(wide(left), wide(right)).flatten(1)
    return {
        "weight": weight.view(-1, *module.weight.shape),
        "bias": _bias_gradient(module, grads),
    }


def _bias_gradient(module: Any, grads: Tensor) -> Tensor:
    if type(module) is nn.Linear:
        return wide(grads).reshape(len(grads), -1, grads.shape[-1]).sum(1)
    return wide(grads).flatten(2).sum(2)


def _weight_norm(
    module: Any, inputs: Tensor, grads: Tensor, mask: Tensor | None
) -> Tensor:
    """Return squared weight gradients, a part of the samples at a time."""
    plain = type(module) is nn.Conv2d and module.groups == 1
    if plain and module.padding_mode == "zeros" and (fused := _fused(grads)):
        left, _, top, _ = _padding(module)
        corner = (top, left)
        whole: Tensor = fused.convolution_norms(module, inputs, grads, corner, mask)
        return whole
    positions = grads[0].numel() // len(module.weight)
    columns = module.weight[0].numel()
    elements = max(positions, len(module.weight)) * columns
    elements *= getattr(module, "groups", 1)
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
    if not grads.is_cuda or grads.dtype == torch.float64 or len(grads) <= FEW_SAMPLES:
        return None
    return _kernels()


@cache
def _kernels() -> Any:
    if find_spec("triton") is None:
        return None
    return import_module("tepui.sharpness.fused")


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
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    padded = F.pad(inputs, _padding(module), mode)
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
        lengths = wide(left).square().sum((2, 3)) * wide(right).square().sum((2, 3))
        return lengths.sum(1)
    # Two Gram matrices where they cost less than the product.
    if positions * (out + inner) < out * inner:
        first = torch.matmul(left.transpose(2, 3), left)
        second = torch.matmul(right, right.transpose(2, 3))
        return (wide(first) * wide(second)).flatten(1).sum(1)
    return wide(torch.matmul(left, right)).square().flatten(1).sum(1)


def _masked_norm(module: Any, inputs: Tensor, grads: Tensor, mask: Tensor) -> Tensor:
    weight = _linear_gradients(module, inputs, grads)["weight"]
    return (weight * mask).square().flatten(1).sum(1)


def _scale_gradients(module: Any, inputs: Tensor, grads: Tensor) -> dict[str, Tensor]:
    """Return gradients of a normalization's scale and shift."""
    normal, grads = _normalized(module, wide(inputs)), wide(grads)
    scaled = grads * normal
    if type(module) in (nn.LayerNorm, nn.RMSNorm):
        shape = (len(grads), -1, *module.normalized_shape)
        return {
            "weight": scaled.reshape(shape).sum(1),
            "bias": grads.reshape(shape).sum(1),
        }
    if grads.ndim == 2:
        return {"weight": scaled, "bias": grads}
    return {"weight": scaled.flatten(2).sum(2), "bias": grads.flatten(2).sum(2)}


def _normalized(module: Any, inputs: Tensor) -> Tensor:
    """Return what a normalization in eval mode scales and shifts."""
    if type(module) is nn.LayerNorm:
        return F.layer_norm(inputs, module.normalized_shape, eps=module.eps)
    if type(module) is nn.RMSNorm:
        return F.rms_norm(inputs, module.normalized_shape, eps=module.eps)
    if type(module) is nn.GroupNorm:
        return F.group_norm(inputs, module.num_groups, eps=module.eps)
    running = (module.running_mean, module.running_var)
    return F.batch_norm(inputs, *running, eps=module.eps)


def embedding_norms(module: Any, inputs: Tensor, grads: Tensor) -> Tensor:
    """Return squared gradient norms of an embedding, by pairs that share a row."""
    index = inputs.reshape(len(inputs), -1).long()
    rows = _row_gradients(module, index, grads)
    products: Tensor = torch.matmul(rows, rows.transpose(1, 2)) * _same_row(index)
    return products.flatten(1).sum(1)


def embedding_gradient(module: Any, inputs: Tensor, grads: Tensor) -> Tensor:
    """Return each sample's gradient of an embedding's weight."""
    index = inputs.reshape(len(inputs), -1).long()
    rows = _row_gradients(module, index, grads)
    gradient = rows.new_zeros(len(rows), *module.weight.shape)
    return gradient.scatter_add_(1, index[:, :, None].expand_as(rows), rows)


def wide(tensor: Tensor) -> Tensor:
    """Return a tensor in float64 as it is, any other in float32."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def _row_gradients(module: Any, index: Tensor, grads: Tensor) -> Tensor:
    """Return what each position adds to its row's gradient."""
    rows = wide(grads).reshape(*index.shape, -1)
    if module.scale_grad_by_freq:
        rows = rows / _same_row(index).sum(2)[:, :, None]
    if module.padding_idx is None:
        return rows
    looked_up: Tensor = index != module.padding_idx
    return rows * looked_up[..., None]


def _same_row(index: Tensor) -> Tensor:
    return index[:, :, None] == index[:, None, :]
