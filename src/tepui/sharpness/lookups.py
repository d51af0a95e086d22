r"""Per-sample gradients of tables whose rows are looked up by index.

A sample's gradient of a row is the sum of the output gradients :math:`g_t` at the
positions :math:`t` that look it up, so that

.. math:: \lVert \nabla W \rVert^2 = \sum_{t, t'} [i_t = i_{t'}] \; g_t^\top g_{t'}.

A bag adds its rows up with coefficients :math:`c_t`, so that :math:`g_t = c_t g`; the
largest value of a column takes all of the column's gradient where a bag keeps maxima.
"""

from typing import Any

import torch
from torch import Tensor


def embedding_norms(module: Any, inputs: Tensor, grads: Tensor) -> Tensor:
    """Return squared gradient norms of an embedding, by pairs that share a row."""
    index = _by_position(inputs)
    rows = _row_gradients(module, index, grads)
    products: Tensor = torch.matmul(rows, rows.transpose(1, 2)) * _same_row(index)
    return products.flatten(1).sum(1)


def embedding_gradient(module: Any, inputs: Tensor, grads: Tensor) -> Tensor:
    """Return each sample's gradient of an embedding's weight."""
    index = _by_position(inputs)
    return _scattered(module, index, _row_gradients(module, index, grads))


def bag_norms(
    module: Any, inputs: Tensor, grads: Tensor, weights: Tensor | None
) -> Tensor:
    """Return squared gradient norms of a bag, whose rows share one output gradient."""
    index, lengths = inputs.long(), wide(grads).square().sum(1)
    if module.mode == "max":
        return lengths * _kept(module, index).any(1)
    shares = _coefficients(module, index, weights, lengths.dtype)
    pairs = shares[:, :, None] * shares[:, None, :] * _same_row(index)
    return lengths * pairs.flatten(1).sum(1)


def bag_gradient(
    module: Any, inputs: Tensor, grads: Tensor, weights: Tensor | None
) -> Tensor:
    """Return each sample's gradient of a bag's weight."""
    index, grads = inputs.long(), wide(grads)
    if module.mode == "max":
        return _gradient_of_maxima(module, index, grads)
    shares = _coefficients(module, index, weights, grads.dtype)
    return _scattered(module, index, shares[:, :, None] * grads[:, None, :])


def wide(tensor: Tensor) -> Tensor:
    """Return a tensor in float64 as it is, any other in float32."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def _by_position(index: Tensor) -> Tensor:
    """Return indices of any shape as ``(samples, positions)``, of a type to scatter."""
    return index.reshape(len(index), -1).long()


def _row_gradients(module: Any, index: Tensor, grads: Tensor) -> Tensor:
    """Return what each position adds to its row's gradient."""
    rows = wide(grads).reshape(*index.shape, -1)
    if module.scale_grad_by_freq:
        rows = rows / _same_row(index).sum(2)[:, :, None]
    return (
        rows if module.padding_idx is None else rows * _kept(module, index)[..., None]
    )


def _coefficients(
    module: Any, index: Tensor, weights: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """Return by how much each position of a bag counts."""
    kept = _kept(module, index).to(dtype)
    if module.mode == "mean":
        return kept / kept.sum(1, keepdim=True).clamp(min=1)
    return kept if weights is None else kept * weights


def _kept(module: Any, index: Tensor) -> Tensor:
    """Return where a row other than the padding row is looked up."""
    if module.padding_idx is None:
        return torch.ones_like(index, dtype=torch.bool)
    kept: Tensor = index != module.padding_idx
    return kept


def _same_row(index: Tensor) -> Tensor:
    return index[:, :, None] == index[:, None, :]


def _scattered(module: Any, index: Tensor, rows: Tensor) -> Tensor:
    gradient = rows.new_zeros(len(rows), *module.weight.shape)
    return gradient.scatter_add_(1, index[:, :, None].expand_as(rows), rows)


def _gradient_of_maxima(module: Any, index: Tensor, grads: Tensor) -> Tensor:
    kept = _kept(module, index)
    values = module.weight.detach()[index].masked_fill(~kept[:, :, None], -torch.inf)
    chosen = index.gather(1, values.argmax(1))
    gradient = grads.new_zeros(len(grads), *module.weight.shape)
    alive = grads * kept.any(1, keepdim=True)
    return gradient.scatter_(1, chosen[:, None, :], alive[:, None, :])
