r"""The trace of each sample's Fisher matrix: its squared gradient norm.

.. math:: s(j) = \lVert \nabla_\theta \, \ell(f_\theta(x_j), y_j) \rVert_2^2

over all trainable parameters that are not pruned, with the true label and with
BatchNorm in eval mode, so that samples do not affect each other. One forward and one
backward pass per batch suffice: each layer's share follows from its inputs and output
gradients (:mod:`tepui.sharpness.layers`). Parameters used more than once are summed
over their uses before squaring. Parameters that no layer shows are differentiated per
sample (:mod:`tepui.sharpness.recorder`); a warning says which, why and at what cost.

Differs from the released code of SharpBalance: no per-sample gradient of the whole
model is held in memory.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.types import check_types
from tepui.data.arrays import Batch
from tepui.data.loading import in_order
from tepui.losses import Loss, cross_entropy
from tepui.modules.running import device_of, undisturbed
from tepui.sharpness.measurement import Data, Measurement, mean_of, select
from tepui.sharpness.recorder import Recorder


def sample_fisher_trace(
    model: nn.Module,
    dataset: Dataset[Any],
    *,
    loss: Loss = cross_entropy,
    batch_size: int | None = None,
    autocast: torch.dtype | None = None,
    workers: int = 0,
) -> Tensor:
    """Return each sample's squared gradient norm.

    Args:
        model: Any module; its mode, parameters and buffers are left unchanged.
        dataset: Samples as the model sees them at test time, not augmented.
        loss: Returns one loss per sample.
        batch_size: Samples per pass; the result does not depend on it. By default 512
            on a GPU and 128 elsewhere.
        autocast: Type of the forward pass, such as ``torch.bfloat16``; norms are
            still summed in float32. None keeps that of the weights.
        workers: Processes that load a data set not held in tensors.

    Returns:
        Shape ``(samples,)``, on the model's device, in the order of the data set.

    Example:
        >>> from tepui.data import Arrays
        >>> data = Arrays(torch.tensor([[3.0, 4.0]]), torch.tensor([[1.0]]))
        >>> model = nn.Linear(2, 1, bias=False)
        >>> _ = nn.init.zeros_(model.weight)
        >>> def half_square(outputs, targets):
        ...     return 0.5 * (outputs - targets).square().sum(1)
        >>> sample_fisher_trace(model, data, loss=half_square)  # |-1 * (3, 4)|²
        tensor([25.])
    """
    check_types(sample_fisher_trace, locals())
    size = _batch_size(model, batch_size)
    select(model, dataset, loss, size, pixels=True)  # refuses what does not fit
    batches = in_order(dataset, size, device=device_of(model), workers=workers)
    return _scores(model, batches, loss, autocast)


def fisher_trace(
    model: nn.Module,
    dataset: Data,
    *,
    loss: Loss = cross_entropy,
    autocast: torch.dtype | None = None,
    num_samples: int | None = None,
    batch_size: int | None = None,
    generator: torch.Generator | None = None,
) -> Measurement:
    """Return the mean of :func:`sample_fisher_trace`.

    Args:
        model: Any module; left unchanged.
        dataset: A data set, or a loader that does not shuffle.
        loss: Returns one loss per sample.
        autocast: Type of the forward pass; None keeps that of the weights.
        num_samples: How many samples; None takes all.
        batch_size: Samples per pass; the value does not depend on it.
        generator: Draws the samples; None always draws the same ones.

    Returns:
        A non-negative value, with its standard error over samples.
    """
    check_types(fisher_trace, locals())
    size = _batch_size(model, batch_size)
    batches = select(model, dataset, loss, size, num_samples, generator)
    precision = None if autocast is None else str(autocast)
    settings = batches.settings("fisher_trace", autocast=precision)
    return mean_of(_scores(model, batches, loss, autocast), settings)


def _batch_size(model: nn.Module, asked: int | None) -> int:
    if asked is not None:
        return asked
    return 512 if device_of(model).type == "cuda" else 128


def _scores(
    model: nn.Module, batches: Iterable[Batch], loss: Loss, autocast: torch.dtype | None
) -> Tensor:
    with undisturbed(model), Recorder(model, loss, autocast).attached() as recorder:
        return torch.cat(list(map(recorder.score, batches)))
