r"""Average-case sharpness: how far the loss rises under random changes of the weights.

.. math::
    S(\theta; \rho) = \mathbb{E}_{e} \, L(\theta + e) - L(\theta), \qquad
    e_j = \rho \, t_j z_j,

with :math:`t = |\theta|` in the adaptive form and :math:`t = 1` otherwise, and standard
normal :math:`z` (``norm="l2"``) or :math:`z` uniform in :math:`(-1, 1)`
(``norm="linf"``). To second order it is :math:`\tfrac12 \rho^2 \sum_j t_j^2 H_{jj}`, a
third of that for uniform :math:`z`.

Differs from the released code: all batches share the same draws, so that each draw
takes one pass over all samples; with the same generator, all models share them too, and
several radii always do.

References:
    Andriushchenko et al., A Modern Look at the Relationship between Sharpness and
    Generalization, ICML 2023.
"""

from collections.abc import Sequence
from typing import Any, get_args, overload

import torch
from torch import Tensor, nn

from tepui.core.checks import one_of, require
from tepui.core.types import check_types
from tepui.losses import Loss, cross_entropy
from tepui.modules.running import undisturbed
from tepui.sharpness.apgd import Norm
from tepui.sharpness.measurement import Measurement, crossed_mean_of
from tepui.sharpness.noise import (
    normal_like,
    rises,
    stream_or_default,
    uniform_like,
)
from tepui.sharpness.selection import Data, select
from tepui.sharpness.weights import Masks, WeightVector


@overload
def average_case(
    model: nn.Module, dataset: Data, *, rho: float = ..., **options: Any
) -> Measurement: ...


@overload
def average_case(
    model: nn.Module, dataset: Data, *, rho: Sequence[float], **options: Any
) -> tuple[Measurement, ...]: ...


def average_case(  # type: ignore[misc]  # the overloads leave other options open
    model: nn.Module,
    dataset: Data,
    *,
    loss: Loss = cross_entropy,
    rho: float | Sequence[float] = 0.5,
    norm: Norm = "l2",
    adaptive: bool = True,
    num_draws: int = 100,
    normalize_logits: bool = False,
    masks: Masks | None = None,
    num_samples: int | None = 500,
    batch_size: int = 500,
    generator: torch.Generator | None = None,
) -> Measurement | tuple[Measurement, ...]:
    """Return the mean rise in loss under random changes of the weights.

    Args:
        model: Any module; left unchanged.
        dataset: A data set, or a loader that does not shuffle.
        loss: Returns one loss per sample.
        rho: Standard deviation of a weight's change, or its bound for ``"linf"``; or
            several.
        norm: ``"l2"`` draws normal, ``"linf"`` uniform changes.
        adaptive: Measure changes relative to each weight.
        num_draws: How many changes; each costs one pass over the samples per ``rho``.
        normalize_logits: Take the scale of the logits out, as the released code can.
        masks: Boolean tensors by parameter name; weights that are False stay.
        num_samples: How many samples; None takes all.
        batch_size: Samples per pass; the value does not depend on it.
        generator: Draws samples and changes on its device; None always draws the same.

    Returns:
        A value, with its standard error over draws and samples; for several ``rho``
        one each. It can be negative.

    Example:
        >>> from tepui.data import Arrays
        >>> model = nn.Linear(1, 1, bias=False)
        >>> _ = model.weight.data.fill_(2.0)
        >>> data = Arrays(torch.ones(1, 1), torch.zeros(1))
        >>> def half_square(outputs, targets):
        ...     return 0.5 * (outputs[:, 0] - targets).square()
        >>> noisy = average_case(model, data, loss=half_square, rho=0.1, num_draws=999)
        >>> abs(noisy.value - 0.5 * 0.1**2 * 2**2) < 3 * noisy.standard_error
        True
    """
    check_types(average_case, locals())
    radii = list(rho) if isinstance(rho, Sequence) else [rho]
    require(len(radii) > 0, "rho", "be a number, or several", radii)
    for radius in radii:
        fits = 0 <= radius < float("inf")
        require(fits, "rho", "be finite and non-negative", radius)
    require(num_draws > 0, "num_draws", "be positive", num_draws)
    one_of("norm", norm, get_args(Norm))
    stream = stream_or_default(generator)
    batches = select(model, dataset, loss, batch_size, num_samples, stream).held()
    weights = WeightVector(model, loss, masks=masks, normalize_logits=normalize_logits)
    scale = weights.scale(adaptive=adaptive)
    reaches = [radius * scale for radius in radii]
    draw = normal_like if norm == "l2" else uniform_like
    with undisturbed(model):
        drawn = (draw(scale, stream) for _ in range(num_draws))
        offsets = (reach * way for way in drawn for reach in reaches)
        values = rises(weights, batches, offsets)

    def mean_of(radius: float, values: Tensor) -> Measurement:
        settings = batches.settings(
            "average_case",
            rho=float(radius),
            norm=norm,
            adaptive=adaptive,
            draws=num_draws,
            normalize_logits=normalize_logits,
            masked=weights.masked,
        )
        return crossed_mean_of(values, settings)

    every = len(radii)
    several = tuple(mean_of(r, values[n::every]) for n, r in enumerate(radii))
    return several if isinstance(rho, Sequence) else several[0]
