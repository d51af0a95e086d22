r"""The mean of a member's weights over the last part of the run.

From a point in the run on, after every update,

.. math:: \bar\theta \leftarrow \frac{c \, \bar\theta + \theta}{1 + c},
    \qquad c = 1, 2, \dots,

where :math:`\bar\theta` starts as the weights with which that part begins, which count
as one of them. Until then the mean is the weights themselves. Buffers of floating type
(BatchNorm's running statistics) are averaged alike. Training itself is untouched, so
that any method can be averaged; with plain members this is an ensemble of averages
(:class:`tepui.methods.EoA`).

Or, over the whole run with a decay :math:`d`, the moving mean

.. math:: \bar\theta \leftarrow d \, \bar\theta + (1 - d) \, \theta,

which starts as the weights after the first update
(:func:`torch.optim.swa_utils.get_ema_multi_avg_fn`, buffers included).

Differs from the original, which fine-tunes a pretrained network and averages from the
100th update: here averaging starts at a share of the run.

References:
    Arpit et al., Ensemble of Averages: Improving Model Selection and Boosting
    Performance in Domain Generalization, NeurIPS 2022.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from tepui.core import foreach

COUNT = "count"


def averaged_tensors(module: nn.Module) -> list[Tensor]:
    """Return trainable parameters and buffers of floating type, in a fixed order."""
    weights = [p.detach() for p in module.parameters() if p.requires_grad]
    return [*weights, *(b for b in module.buffers() if b.is_floating_point())]


def start_average(module: nn.Module, progress: Tensor) -> dict[str, Tensor]:
    """Return the initial average: the current weights, and a count of 0 after them."""
    means = [tensor.clone() for tensor in averaged_tensors(module)]
    numbered = {f"mean/{number}": mean for number, mean in enumerate(means)}
    wide = torch.promote_types(progress.dtype, means[0].dtype)
    return {COUNT: torch.zeros_like(progress, dtype=wide), **numbered}


def update_average(
    average: Mapping[str, Tensor],
    tensors: Sequence[Tensor],
    progress: Tensor,
    start: float,
) -> None:
    """Take the weights after an update into the mean, in place."""
    with torch.no_grad():
        count = average[COUNT]
        count.add_((progress >= start).to(count.dtype))
        _keep(average, tensors, count / (1 + count))


def update_moving_average(
    average: Mapping[str, Tensor], tensors: Sequence[Tensor], decay: float
) -> None:
    """Take the weights after an update into the moving mean, in place."""
    with torch.no_grad():
        count = average[COUNT]
        _keep(average, tensors, decay * count)
        count.fill_(1)


def _keep(
    average: Mapping[str, Tensor], tensors: Sequence[Tensor], share: Tensor
) -> None:
    """Keep a share of the means; the rest comes from the weights."""
    means = means_of(average)
    # Written so that the mean is exactly the weights while the share is zero.
    back = foreach.subtract(means, tensors)
    foreach.scale_(back, share)
    foreach.copy_(means, foreach.add(tensors, back))


def means_of(average: Mapping[str, Tensor]) -> list[Tensor]:
    """Return the means in the order of :func:`averaged_tensors`."""
    return [tensor for name, tensor in average.items() if name != COUNT]


@contextmanager
def at_average(module: nn.Module, average: Mapping[str, Tensor]) -> Iterator[None]:
    """Put the mean in the place of the weights inside the block, if there is one."""
    if not average:
        yield
        return
    tensors = averaged_tensors(module)
    before = [tensor.clone() for tensor in tensors]
    foreach.copy_(tensors, means_of(average))
    try:
        yield
    finally:
        foreach.copy_(tensors, before)
