r"""The trace and the extreme eigenvalues of the loss's Hessian.

The trace, by Hutchinson's estimator:

.. math::
    \operatorname{tr} H = \mathbb{E}_v \, v^\top H v, \qquad
    H = \nabla^2_\theta L(\theta), \quad v_j = \pm 1,

unbiased, with variance :math:`2 \sum_{i \ne j} H_{ij}^2` per probe. Each sample has
its own product :math:`v^\top H_j v`, so that the standard error covers probes and
samples.

Differs from the released code: a fixed number of probes and a standard error instead
of stopping at a small change.

The extreme eigenvalues, by Lanczos iteration (ARPACK, through scipy) on Hessian-vector
products, each a pass over the data with two backward passes; the Hessian is never
formed. With the unit eigenvector :math:`v`, :math:`\lambda = v^\top H v` is the mean
over samples of :math:`v^\top H_j v`, whose spread gives the standard error to first
order.

References:
    Hutchinson, A Stochastic Estimator of the Trace of the Influence Matrix, 1990.
    Lehoucq, Sorensen and Yang, ARPACK Users' Guide, 1998.
"""

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from tepui.core.checks import require
from tepui.core.types import check_types
from tepui.losses import Loss, cross_entropy
from tepui.modules.running import undisturbed
from tepui.sharpness.measurement import (
    Data,
    Measurement,
    Selection,
    crossed_mean_of,
    mean_of,
    select,
    without_nan,
)
from tepui.sharpness.weights import (
    WeightVector,
    curvatures_along,
    normal_like,
    signs_like,
    stream_or_default,
)


def hessian_trace(
    model: nn.Module,
    dataset: Data,
    *,
    loss: Loss = cross_entropy,
    num_probes: int = 20,
    num_samples: int | None = 500,
    batch_size: int = 100,
    generator: torch.Generator | None = None,
) -> Measurement:
    """Estimate the trace of the Hessian of the mean loss.

    Args:
        model: Any module; left unchanged.
        dataset: A data set.
        loss: Returns one loss per sample.
        num_probes: How many vectors of random signs; each costs about twenty
            forward passes over the samples.
        num_samples: How many samples; None takes all.
        batch_size: Samples per pass; the value does not depend on it.
        generator: Draws samples and probes on its device; None always draws the same.

    Returns:
        A value, with its standard error over probes and samples. Away from a minimum
        it can be negative.

    Example:
        >>> from tepui.data import Arrays
        >>> data = Arrays(torch.tensor([[2.0]]), torch.zeros(1))
        >>> def half_square(outputs, targets):
        ...     return 0.5 * (outputs[:, 0] - targets).square()
        >>> hessian_trace(nn.Linear(1, 1, bias=False), data, loss=half_square).value
        4.0
    """
    check_types(hessian_trace, locals())
    require(num_probes > 0, "num_probes", "be positive", num_probes)
    stream = stream_or_default(generator)
    batches = select(model, dataset, loss, batch_size, num_samples, stream).held()
    weights = WeightVector(model, loss)
    free = weights.scale()
    with undisturbed(model), sdpa_kernel(SDPBackend.MATH):
        ways = (free * signs_like(free, stream) for _ in range(num_probes))
        rows = [curvatures_along(weights, batches, way) for way in ways]
    settings = batches.settings(
        "hessian_trace", probes=num_probes, masked=weights.masked
    )
    return crossed_mean_of(torch.stack(rows), settings)


Which = Literal["LA", "SA", "LM"]


def hessian_eigenvalues(
    model: nn.Module,
    dataset: Data,
    *,
    loss: Loss = cross_entropy,
    num_eigenvalues: int = 1,
    which: Which = "LA",
    tolerance: float = 1e-4,
    num_samples: int | None = 500,
    batch_size: int = 100,
    generator: torch.Generator | None = None,
) -> tuple[Measurement, ...]:
    """Return extreme eigenvalues of the Hessian of the mean loss.

    Args:
        model: Any module; left unchanged.
        dataset: A data set.
        loss: Returns one loss per sample.
        num_eigenvalues: How many, fewer than there are weights that may move.
        which: The largest (``"LA"``), the smallest (``"SA"``) or the largest by
            magnitude (``"LM"``), as in ``scipy.sparse.linalg.eigsh``.
        tolerance: Relative accuracy.
        num_samples: How many samples; None takes all.
        batch_size: Samples per pass; the values do not depend on it.
        generator: Draws samples and first vector on its device; None: always the same.

    Returns:
        One measurement each, the extreme one first.

    Example:
        >>> from tepui.data import Arrays
        >>> data = Arrays(torch.tensor([[3.0, 4.0]]), torch.zeros(1))
        >>> def half_square(outputs, targets):
        ...     return 0.5 * (outputs[:, 0] - targets).square()
        >>> model = nn.Linear(2, 1, bias=False)
        >>> (largest,) = hessian_eigenvalues(model, data, loss=half_square)
        >>> round(largest.value, 4)
        25.0
    """
    check_types(hessian_eigenvalues, locals())
    stream = stream_or_default(generator)
    batches = select(model, dataset, loss, batch_size, num_samples, stream).held()
    weights = WeightVector(model, loss)
    free = weights.scale()
    kept = free.nonzero()[:, 0]
    rule = f"be positive and less than the number of free weights ({len(kept)})"
    few = 0 < num_eigenvalues < len(kept)
    require(few, "num_eigenvalues", rule, num_eigenvalues)
    settings = batches.settings(
        "hessian_eigenvalues",
        count=num_eigenvalues,
        which=which,
        tolerance=tolerance,
        masked=weights.masked,
    )
    with undisturbed(model), sdpa_kernel(SDPBackend.MATH):
        start = normal_like(free, stream)[kept].double().cpu().numpy()
        how = {"k": num_eigenvalues, "which": which, "v0": start, "tol": tolerance}
        vectors = _eigenvectors(weights, batches, kept, **how)
        curvatures = [curvatures_along(weights, batches, v) for v in vectors]
    found = [mean_of(values, settings) for values in curvatures]
    sizes = [abs(one.value) if which == "LM" else one.value for one in found]
    order = np.argsort(sizes if which == "SA" else np.negative(sizes), kind="stable")
    return tuple(found[place] for place in order)


def hessian_product(weights: WeightVector, batches: Selection, way: Tensor) -> Tensor:
    """Return the Hessian of the mean loss times a vector."""
    total = torch.zeros_like(way)
    for batch in batches:
        with torch.enable_grad():
            here = weights.vector.clone().requires_grad_()
            value = weights.losses(here, batch).sum() / batches.samples
            (slope,) = torch.autograd.grad(value, here, create_graph=True)
            if not slope.requires_grad:  # a loss linear in the weights
                continue
            (product,) = torch.autograd.grad(
                slope, here, way, allow_unused=True, materialize_grads=True
            )
        total += product
    return total


def _eigenvectors(
    weights: WeightVector, batches: Selection, kept: Tensor, **how: Any
) -> list[Tensor]:
    """Return unit eigenvectors, with options for ``scipy.sparse.linalg.eigsh``.

    Lanczos iteration runs in the coordinates of the kept weights: it may not leave
    them, as it would for vectors of the whole space once those are exhausted.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    def spread(vector: np.ndarray) -> Tensor:
        way = torch.zeros_like(weights.vector)
        way[kept] = torch.from_numpy(vector.copy()).to(way)
        return way

    def product(vector: np.ndarray) -> np.ndarray:
        image = hessian_product(weights, batches, spread(vector.ravel()))
        kept_image = without_nan(image)[kept]
        return np.asarray(kept_image.double().cpu().numpy())

    size = len(kept)
    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    _, vectors = eigsh(operator, **how)
    return [spread(vector) for vector in vectors.T]
