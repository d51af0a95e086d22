r"""Linear centered kernel alignment (CKA): how alike two models' features are.

With centered features :math:`X` and :math:`Y` of the same samples,

.. math::
    \operatorname{CKA} = \frac{\lVert X^\top Y \rVert_F^2}
    {\lVert X^\top X \rVert_F \, \lVert Y^\top Y \rVert_F} \in [0, 1],

one for features that are equal up to rotation and scale.

References:
    Kornblith et al., Similarity of Neural Network Representations Revisited, ICML 2019.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import torch
from torch import Tensor, nn

from tepui.core.checks import require
from tepui.core.types import check_types
from tepui.losses import Loss, cross_entropy
from tepui.modules.running import device_of, undisturbed
from tepui.sharpness.measurement import Data, Measurement, mean_of, select
from tepui.sharpness.relative_flatness import features_and_logits


def linear_cka(first: Tensor, second: Tensor) -> Tensor:
    """Return the linear CKA of two sets of features.

    Args:
        first: Shape ``(samples, width)``.
        second: Shape ``(samples, other_width)``, of the same samples.

    Returns:
        A scalar in [0, 1]; NaN where all samples have the same features.

    Raises:
        ValueError: If shapes do not fit.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0]])
        >>> linear_cka(x, -5 * x.flip(1))
        tensor(1.)
    """
    check_types(linear_cka, locals())
    same = first.ndim == second.ndim == 2 and len(first) == len(second)
    rule = f"be (samples, width) for the same samples as the first {tuple(first.shape)}"
    require(same, "second", rule, tuple(second.shape))
    for name, part in (("first", first), ("second", second)):
        require(part.is_floating_point(), name, "be floating point", part.dtype)
    rule = f"be of the type of the first ({first.dtype})"
    require(first.dtype == second.dtype, "second", rule, second.dtype)
    x, y = (part - part.mean(0) for part in (first, second))
    scale: Tensor = (x.T @ x).norm() * (y.T @ y).norm()
    return (x.T @ y).square().sum() / scale


def pairwise_cka(
    models: Sequence[nn.Module],
    dataset: Data,
    *,
    loss: Loss = cross_entropy,
    num_samples: int | None = None,
    batch_size: int = 256,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return the linear CKA of every pair of models' features before the last layer.

    Args:
        models: At least two modules with linear last layers, such as
            ``ensemble.members``; left unchanged.
        dataset: A data set.
        loss: Only tells which labels fit; features do not depend on it.
        num_samples: How many samples; None takes all.
        batch_size: Samples per pass; the values do not depend on it.
        generator: Draws the samples; None always draws the same ones.

    Returns:
        Shape ``(models, models)``, symmetric, float64, on the CPU.
    """
    check_types(pairwise_cka, locals())
    require(len(models) > 1, "models", "be at least two", len(models))
    batches = select(models[0], dataset, loss, batch_size, num_samples, generator)
    features = []
    for model in models:
        same = replace(batches, device=device_of(model))
        with undisturbed(model), features_and_logits(model) as seen:
            parts = [seen(batch.inputs)[0].double().cpu() for batch in same]
        features.append(torch.cat(parts))
    alignment = torch.eye(len(models), dtype=torch.float64)
    for i, j in combinations(range(len(models)), 2):
        alignment[i, j] = alignment[j, i] = linear_cka(features[i], features[j])
    return alignment


def cka(
    models: Sequence[nn.Module],
    dataset: Data,
    *,
    loss: Loss = cross_entropy,
    num_samples: int | None = None,
    batch_size: int = 256,
    generator: torch.Generator | None = None,
) -> Measurement:
    """Return the mean linear CKA over all pairs of models.

    Args:
        models: At least two modules with linear last layers, such as
            ``ensemble.members``; left unchanged.
        dataset: A data set.
        loss: Only tells which labels fit; features do not depend on it.
        num_samples: How many samples; None takes all.
        batch_size: Samples per pass; the value does not depend on it.
        generator: Draws the samples; None always draws the same ones.

    Returns:
        A value in [0, 1], with its standard error over pairs (NaN for two models).

    Example:
        >>> from tepui.data import Arrays
        >>> data = Arrays(torch.randn(9, 4), torch.arange(9) % 3)
        >>> models = [nn.Linear(4, 3), nn.Linear(4, 3)]
        >>> round(cka(models, data).value, 6)  # the same inputs are the features
        1.0
    """
    alignment = pairwise_cka(**locals())
    rows, columns = torch.triu_indices(len(models), len(models), offset=1)
    about = {"measure": "cka", "models": len(models)}
    return mean_of(alignment[rows, columns], about)
