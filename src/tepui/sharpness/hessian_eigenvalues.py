r"""The extreme eigenvalues of the loss's Hessian.

Lanczos iteration (ARPACK, through scipy) on Hessian-vector products, each a pass over
the data with two backward passes; the Hessian is never formed. With the unit
eigenvector :math:`v`, :math:`\lambda = v^\top H v` is the mean over samples of
:math:`v^\top H_j v`, whose spread gives the standard error to first order.

References:
    Lehoucq, Sorensen and Yang, ARPACK Users' Guide, 1998.
"""

from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from tepui.core.checks import one_of, require
from tepui.core.types import check_types
from tepui.losses import Loss, cross_entropy
from tepui.modules.running import undisturbed
from tepui.sharpness.measurement import Measurement, mean_of, without_nan
from tepui.sharpness.noise import curvatures_along, normal_like, stream_or_default
from tepui.sharpness.selection import Data, Selection, select
from tepui.sharpness.weights import Masks, WeightVector

Which = Literal["LA", "SA", "LM"]


def hessian_eigenvalues(
    model: nn.Module,
    dataset: Data,
    *,
    loss: Loss = cross_entropy,
    num_eigenvalues: int = 1,
    which: Which = "LA",
    tolerance: float = 1e-4,
    masks: Masks | None = None,
    num_samples: int | None = 500,
    batch_size: int = 100,
    generator: torch.Generator | None = None,
) -> tuple[Measurement, ...]:
    """Return extreme eigenvalues of the Hessian of the mean loss.

    Args:
        model: Any module; left unchanged.
        dataset: A data set, or a loader that does not shuffle.
        loss: Returns one loss per sample.
        num_eigenvalues: How many, fewer than there are weights that may move.
        which: The largest (``"LA"``), the smallest (``"SA"``) or the largest by
            magnitude (``"LM"``), as in ``scipy.sparse.linalg.eigsh``.
        tolerance: Relative accuracy.
        masks: Boolean tensors by parameter name; the Hessian is that of the weights
            that are True.
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
    one_of("which", which, get_args(Which))
    stream = stream_or_default(generator)
    batches = select(model, dataset, loss, batch_size, num_samples, stream).held()
    weights = WeightVector(model, loss, masks=masks)
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
        start = normal_like(free, stream)[kept]
        how = num_eigenvalues, which, tolerance
        vectors = _eigenvectors(weights, batches, kept, start, *how)
        curvatures = [curvatures_along(weights, batches, v) for v in vectors]
    found = [mean_of(values, settings) for values in curvatures]

    def rank(one: Measurement) -> float:
        return {"LA": -one.value, "SA": one.value, "LM": -abs(one.value)}[which]

    return tuple(sorted(found, key=rank))


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
    weights: WeightVector,
    batches: Selection,
    kept: Tensor,
    start: Tensor,
    count: int,
    which: Which,
    tolerance: float,
) -> list[Tensor]:
    """Return unit eigenvectors.

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
        kept_image = without_nan(image, "weight")[kept]
        return np.asarray(kept_image.double().cpu().numpy())

    size = len(kept)
    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    first = start.double().cpu().numpy()
    _, vectors = eigsh(operator, count, which=which, v0=first, tol=tolerance)
    return [spread(vector) for vector in vectors.T]
