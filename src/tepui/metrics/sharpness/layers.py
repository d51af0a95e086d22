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
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Elements of one per-sample product; larger batches are worked on in parts.
WORKING_ELEMENTS = 2**26

NORMS = (nn.modules.batchnorm._BatchNorm, nn.LayerNorm, nn.GroupNorm)
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d)


def is_known(module: nn.Module) -> bool:
    """Return whether per-sample gradients of this kind of module are known here.

    Args:
        module: A module with parameters of its own.

    Returns:
        True for exact types only: a subclass may compute something else.
    """
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
    module: nn.Module, inputs: Tensor, grads: Tensor, names: Collection[str]
) -> Tensor:
    """Return each sample's squared gradient norm over some parameters of a layer.

    Args:
        module: A module that :func:`is_known`.
        inputs: What it was called with; samples along the first axis.
        grads: Gradient of the summed losses with respect to its output.
        names: Which of its own parameters, at least one.

    Returns:
        Shape ``(samples,)``, in float32 or wider.
    """
    if type(module) is nn.Embedding:
        return _embedding_norm(module, inputs, grads)
    if isinstance(module, NORMS):
        found = gradients(module, inputs, grads, names)
        return torch.stack([g.square().flatten(1).sum(1) for g in found.values()]).sum(
            0
        )
    left, right = _matrices(module, inputs, grads)
    norms = []
    if "weight" in names:
        norms.append(_product_norm(left, right))
    if "bias" in names:
        norms.append(_wide(left).sum(-1).square().flatten(1).sum(1))
    return torch.stack(norms).sum(0)


def gradients(
    module: nn.Module, inputs: Tensor, grads: Tensor, names: Collection[str]
) -> dict[str, Tensor]:
    """Return each sample's gradient of some parameters of a layer.

    Args:
        module: A module that :func:`is_known`.
        inputs: What it was called with; samples along the first axis.
        grads: Gradient of the summed losses with respect to its output.
        names: Which of its own parameters.

    Returns:
        Gradients of shape ``(samples, *parameter.shape)``, by parameter name.
    """
    rule: Callable[[Any, Tensor, Tensor], dict[str, Tensor]]
    if type(module) is nn.Embedding:
        rule = _embedding_gradient
    elif isinstance(module, NORMS):
        rule = _norm_gradients
    else:
        rule = _linear_gradients
    found = rule(module, inputs, grads)
    return {name: found[name] for name in names}


def _linear_gradients(module: Any, inputs: Tensor, grads: Tensor) -> dict[str, Tensor]:
    left, right = _matrices(module, inputs, grads)
    weight = torch.matmul(_wide(left), _wide(right)).flatten(1)
    bias = _wide(left).sum(-1).flatten(1)
    return {"weight": weight.view(-1, *module.weight.shape), "bias": bias}


def _matrices(module: Any, inputs: Tensor, grads: Tensor) -> tuple[Tensor, Tensor]:
    """Return factors whose product is each sample's weight gradient.

    Returns:
        Output gradients ``(samples, groups, out, positions)`` and inputs or patches
        ``(samples, groups, positions, in)``.
    """
    if type(module) is nn.Linear:
        samples = len(inputs)
        left = grads.reshape(samples, -1, grads.shape[-1]).transpose(1, 2)
        right = inputs.reshape(samples, 1, -1, inputs.shape[-1])
        return left[:, None], right.to(left.dtype)
    left = grads.reshape(len(grads), module.groups, -1, grads[0, 0].numel())
    return left, _patches(module, inputs.to(grads.dtype), grads.shape[2:])


def _patches(module: Any, inputs: Tensor, out_shape: torch.Size) -> Tensor:
    """Return every patch of a convolution's input as a row, copied once.

    Returns:
        Shape ``(samples, groups, positions, channels per group * kernel size)``, in the
        order of the flattened weight.
    """
    padded = F.pad(inputs, _padding(module))
    samples, channels = padded.shape[:2]
    strides = padded.stride()
    moves = [s * stride for s, stride in zip(module.stride, strides[2:], strict=True)]
    taps = [d * stride for d, stride in zip(module.dilation, strides[2:], strict=True)]
    per_group = channels // module.groups
    view = padded.as_strided(
        (samples, module.groups, *out_shape, per_group, *module.kernel_size),
        (strides[0], per_group * strides[1], *moves, strides[1], *taps),
    )
    positions = out_shape.numel()
    return view.reshape(samples, module.groups, positions, -1)


def _padding(module: Any) -> list[int]:
    """Return the padding as ``F.pad`` takes it, last axis first."""
    if isinstance(module.padding, str):
        return list(module._reversed_padding_repeated_twice)
    return [amount for size in reversed(module.padding) for amount in (size, size)]


def _product_norm(left: Tensor, right: Tensor) -> Tensor:
    """Return the squared Frobenius norm of each sample's ``left @ right``.

    Args:
        left: Shape ``(samples, groups, out, positions)``.
        right: Shape ``(samples, groups, positions, in)``.
    """
    _, groups, out, positions = left.shape
    inner = right.shape[-1]
    if positions == 1:
        lengths = _wide(left).square().sum((2, 3)) * _wide(right).square().sum((2, 3))
        return lengths.sum(1)
    by_gram = positions * (out + inner) < out * inner
    size = groups * (positions**2 if by_gram else out * inner)
    total = []
    step = max(1, WORKING_ELEMENTS // size)
    for lows, rows in zip(left.split(step), right.split(step), strict=True):
        if by_gram:
            first = torch.matmul(lows.transpose(2, 3), lows)
            second = torch.matmul(rows, rows.transpose(2, 3))
            total.append((_wide(first) * _wide(second)).flatten(1).sum(1))
        else:
            total.append(_wide(torch.matmul(lows, rows)).square().flatten(1).sum(1))
    return torch.cat(total) if len(total) > 1 else total[0]


def _norm_gradients(module: Any, inputs: Tensor, grads: Tensor) -> dict[str, Tensor]:
    """Return gradients of a normalisation's scale and shift."""
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
    index = inputs.flatten(1)
    rows = _kept_rows(module, index, grads)
    same = index[:, :, None] == index[:, None, :]
    products: Tensor = torch.matmul(rows, rows.transpose(1, 2)) * same
    return products.flatten(1).sum(1)


def _embedding_gradient(
    module: Any, inputs: Tensor, grads: Tensor
) -> dict[str, Tensor]:
    index = inputs.flatten(1)
    rows = _kept_rows(module, index, grads)
    gradient = rows.new_zeros(len(rows), *module.weight.shape)
    gradient.scatter_add_(1, index[:, :, None].expand_as(rows), rows)
    return {"weight": gradient}


def _kept_rows(module: Any, index: Tensor, grads: Tensor) -> Tensor:
    """Return output gradients by position, zero where the padding row is looked up."""
    rows = _wide(grads).reshape(*index.shape, -1)
    if module.padding_idx is None:
        return rows
    kept: Tensor = index != module.padding_idx
    return rows * kept[:, :, None]


def _wide(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()
