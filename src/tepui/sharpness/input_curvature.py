r"""The curvature of the loss around an input.

.. math::
    c(x) = \frac1R \sum_r \big\lVert \nabla_x \ell(x + h v_r, y)
    - \nabla_x \ell(x, y) \big\rVert_2, \qquad v_r \in \{-1, 1\}^d,

about :math:`h \, \lVert H_x v \rVert` for the Hessian :math:`H_x` with respect to the
input; neither squared nor divided by :math:`h`. All samples share the sign vectors.

References:
    Garg and Roy, Samples with Low Loss Curvature Improve Data Efficiency, CVPR 2023.
"""

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from tepui.core.checks import require
from tepui.core.types import check_types
from tepui.data.arrays import Batch, Inputs
from tepui.losses import Loss, cross_entropy
from tepui.modules.running import as_taken, forward, undisturbed
from tepui.sharpness.measurement import (
    Data,
    Measurement,
    Selection,
    crossed_mean_of,
    select,
)
from tepui.sharpness.weights import signs_like, stream_or_default


def input_curvature(
    model: nn.Module,
    dataset: Data,
    *,
    loss: Loss = cross_entropy,
    step: float = 1e-3,
    num_probes: int = 10,
    num_samples: int | None = None,
    batch_size: int = 256,
    generator: torch.Generator | None = None,
) -> Measurement:
    """Return the mean curvature of the loss around the inputs.

    Args:
        model: Any module of floating inputs; left as it was.
        dataset: A data set.
        loss: Returns one loss per sample.
        step: How far inputs are moved along each sign.
        num_probes: How many sign vectors; each costs a forward and a backward pass.
        num_samples: How many samples; None takes all.
        batch_size: Samples per pass; the value does not depend on it.
        generator: Draws samples and signs on its device; None always draws the same.

    Returns:
        A non-negative value, with its standard error over probes and samples.

    Example:
        >>> from tepui.data import Arrays
        >>> data = Arrays(torch.randn(6, 4), torch.arange(6) % 3)
        >>> input_curvature(nn.Linear(4, 3), data).value > 0
        True
    """
    check_types(input_curvature, locals())
    stream = stream_or_default(generator)
    batches = select(model, dataset, loss, batch_size, num_samples, stream)
    values = _changes(model, batches, step, num_probes, stream)
    how = {"step": float(step), "probes": num_probes}
    settings = batches.settings("input_curvature", **how)
    return crossed_mean_of(values, settings)


def sample_input_curvature(
    model: nn.Module,
    dataset: Data,
    *,
    loss: Loss = cross_entropy,
    step: float = 1e-3,
    num_probes: int = 10,
    num_samples: int | None = None,
    batch_size: int = 256,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return the curvature of the loss around every input.

    Args:
        model: Any module of floating inputs; left as it was.
        dataset: A data set.
        loss: Returns one loss per sample.
        step: How far inputs are moved along each sign.
        num_probes: How many sign vectors; each costs a forward and a backward pass.
        num_samples: How many samples; None takes all.
        batch_size: Samples per pass; the values do not depend on it.
        generator: Draws samples and signs on its device; None always draws the same.

    Returns:
        Shape ``(samples,)``, in the order of the data.
    """
    check_types(sample_input_curvature, locals())
    stream = stream_or_default(generator)
    batches = select(model, dataset, loss, batch_size, num_samples, stream)
    return _changes(model, batches, step, num_probes, stream).mean(0)


def _changes(
    model: nn.Module,
    batches: Selection,
    step: float,
    num_probes: int,
    stream: torch.Generator,
) -> Tensor:
    """Return how far each gradient moves, ``(probes, samples)``."""
    require(0 < step < float("inf"), "step", "be finite and positive", step)
    require(num_probes > 0, "num_probes", "be positive", num_probes)
    shapes = _floating(as_taken(model, next(iter(batches)).inputs))
    require(len(shapes) > 0, "dataset", "have floating inputs", "integers alone")
    ways = [
        {name: step * signs_like(value[0], stream) for name, value in shapes.items()}
        for _ in range(num_probes)
    ]

    def moved(batch: Batch) -> Tensor:
        batch = batch._replace(inputs=as_taken(model, batch.inputs))
        start = _gradient(model, batch, batches.loss, None)
        changes = (_gradient(model, batch, batches.loss, way) - start for way in ways)
        return torch.stack([change.norm(dim=1) for change in changes])

    with undisturbed(model), sdpa_kernel(SDPBackend.MATH):
        return torch.cat([moved(batch) for batch in batches], dim=1)


def _gradient(
    model: nn.Module, batch: Batch, loss: Loss, way: dict[str, Tensor] | None
) -> Tensor:
    """Return each loss's gradient with respect to its input, one row per sample."""
    leaves = {}
    for name, value in _floating(batch.inputs).items():
        there = value if way is None else value + way[name]
        leaves[name] = there.detach().requires_grad_()
    given = batch.inputs
    inputs = leaves[""] if isinstance(given, Tensor) else {**given, **leaves}
    with torch.enable_grad():
        total = loss(forward(model, inputs), batch.targets).sum()
        gradients = torch.autograd.grad(
            total, list(leaves.values()), allow_unused=True, materialize_grads=True
        )
    return torch.cat([gradient.flatten(1) for gradient in gradients], dim=1)


def _floating(inputs: Inputs) -> dict[str, Tensor]:
    """Return the inputs that can be moved; a bare tensor has an empty name."""
    named = {"": inputs} if isinstance(inputs, Tensor) else inputs
    return {n: value for n, value in named.items() if value.is_floating_point()}
