r"""How far the loss rises under random changes of the weights.

Average-case sharpness (:func:`average_case`):

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

SAM-sharpness (:func:`sam_sharpness`), at random places near the weights:

.. math:: S(\theta; \rho) = \frac{1}{K} \sum_k L(\theta + \delta_k) - L(\theta)

with :math:`\delta_k` normal of standard deviation :math:`\rho` in every weight
(``mode="elementwise"``), or of length :math:`\rho` in a random direction
(``mode="l2"``). To second order the first is
:math:`\tfrac12 \rho^2 \operatorname{tr} H`; the second is smaller by the number of
weights, and for :math:`\rho` near 0.005 and millions of weights too small for float32.

The paper that uses it (Understanding Deep Learning Requires Rethinking Sharpness) does
not specify the norm of the step; only ``"elementwise"`` fits the size of its values.
Its predecessor divides by :math:`\rho`, takes the largest of ten draws and moves
BatchNorm's running statistics too.

References:
    Andriushchenko et al., A Modern Look at the Relationship between Sharpness and
    Generalization, ICML 2023. Foret et al., Sharpness-Aware Minimization for
    Efficiently Improving Generalization, ICLR 2021.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn

from tepui.core.checks import require
from tepui.core.types import check_types
from tepui.losses import Loss, cross_entropy
from tepui.modules.running import undisturbed
from tepui.sharpness.measurement import (
    Data,
    Measurement,
    crossed_mean_of,
    radii_of,
    select,
)
from tepui.sharpness.weights import (
    WeightVector,
    normal_like,
    rises,
    stream_or_default,
    uniform_like,
)
from tepui.sharpness.worst_case import Norm


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
    num_samples: int | None = 500,
    batch_size: int = 500,
    generator: torch.Generator | None = None,
) -> Measurement | tuple[Measurement, ...]:
    """Return the mean rise in loss under random changes of the weights.

    Args:
        model: Any module; left unchanged.
        dataset: A data set.
        loss: Returns one loss per sample.
        rho: Standard deviation of a weight's change, or its bound for ``"linf"``; or
            several.
        norm: ``"l2"`` draws normal, ``"linf"`` uniform changes.
        adaptive: Measure changes relative to each weight.
        num_draws: How many changes; each costs one pass over the samples per ``rho``.
        normalize_logits: Take the scale of the logits out, as the released code can.
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
    radii = radii_of(rho)
    require(num_draws > 0, "num_draws", "be positive", num_draws)
    stream = stream_or_default(generator)
    batches = select(model, dataset, loss, batch_size, num_samples, stream).held()
    weights = WeightVector(model, loss, normalize_logits=normalize_logits)
    scale = weights.scale(adaptive=adaptive)
    reaches = [radius * scale for radius in radii]
    draw = normal_like if norm == "l2" else uniform_like
    with undisturbed(model):
        drawn = (draw(scale, stream) for _ in range(num_draws))
        offsets = (reach * way for way in drawn for reach in reaches)
        values = rises(weights, batches, offsets)

    settings = batches.settings(
        "average_case",
        norm=norm,
        adaptive=adaptive,
        draws=num_draws,
        normalize_logits=normalize_logits,
        masked=weights.masked,
    )
    several = tuple(
        crossed_mean_of(values[n :: len(radii)], settings | {"rho": float(radius)})
        for n, radius in enumerate(radii)
    )
    return several if isinstance(rho, Sequence) else several[0]


Mode = Literal["elementwise", "l2"]


def sam_sharpness(
    model: nn.Module,
    dataset: Data,
    *,
    loss: Loss = cross_entropy,
    rho: float = 0.005,
    mode: Mode = "elementwise",
    num_draws: int = 100,
    num_samples: int | None = None,
    batch_size: int = 1024,
    generator: torch.Generator | None = None,
) -> Measurement:
    """Return the mean change of the loss at random places near the weights.

    Args:
        model: Any module; left unchanged.
        dataset: A data set; random transforms draw the same numbers in every pass.
        loss: Returns one loss per sample.
        rho: How far away the places are.
        mode: ``"elementwise"``, or ``"l2"`` for a step of length ``rho``.
        num_draws: How many places; each costs one pass over the samples.
        num_samples: How many samples; None takes all.
        batch_size: Samples per pass; the value does not depend on it.
        generator: Draws samples and places on its device; None always draws the same.

    Returns:
        A value, with its standard error over draws and samples. It can be negative.

    Example:
        >>> from tepui.data import Arrays
        >>> data = Arrays(torch.eye(3), torch.zeros(3))
        >>> def half_square(outputs, targets):
        ...     return 0.5 * (outputs[:, 0] - targets).square()
        >>> measured = sam_sharpness(nn.Linear(3, 1), data, loss=half_square, rho=0.1)
        >>> measured.settings["draws"]
        100
    """
    check_types(sam_sharpness, locals())
    require(rho > 0, "rho", "be finite and positive", rho)
    require(num_draws > 0, "num_draws", "be positive", num_draws)
    stream = stream_or_default(generator)
    batches = select(model, dataset, loss, batch_size, num_samples, stream).held()
    weights = WeightVector(model, loss)
    free = weights.scale()

    def offsets() -> Iterator[Tensor]:
        for _ in range(num_draws):
            way = free * normal_like(free, stream)
            yield rho * (way if mode == "elementwise" else way / way.norm())

    with undisturbed(model):
        values = rises(weights, batches, offsets())
    settings = batches.settings(
        "sam_sharpness",
        rho=float(rho),
        mode=mode,
        draws=num_draws,
        masked=weights.masked,
    )
    return crossed_mean_of(values, settings)
