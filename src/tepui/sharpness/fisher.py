r"""The trace of each sample's Fisher matrix, and the Fisher–Rao norm of the weights.

The trace is the squared gradient norm

.. math:: s(j) = \lVert \nabla_\theta \, \ell(f_\theta(x_j), y_j) \rVert_2^2

over all trainable parameters that are not pruned, with the true label and with
BatchNorm in eval mode, so that samples do not affect each other. One forward and one
backward pass per batch suffice: each layer's share follows from its inputs and output
gradients (:mod:`tepui.sharpness.layers`). Parameters used more than once are summed
over their uses before squaring. Parameters that no layer shows are differentiated per
sample (:mod:`tepui.sharpness.recorder`); a warning says which and at what cost.

Differs from the released code of SharpBalance: no per-sample gradient of the whole
model is held in memory.

The Fisher–Rao norm is

.. math::
    \lVert \theta \rVert_{FR}^2 = \theta^\top F(\theta) \, \theta
    = \mathbb{E} \, \langle \theta, \nabla_\theta \ell \rangle^2.

With the outputs :math:`f`, :math:`\langle \theta, \nabla_\theta \ell \rangle =
\langle \partial \ell / \partial f, J \theta \rangle`. ``method="direct"`` takes
:math:`J \theta` by differentiation along the weights, for any architecture. A
network of :math:`D` linear layers with ReLU and without biases is homogeneous,
:math:`J \theta = D f`, so that for cross-entropy

.. math::
    \lVert \theta \rVert_{FR} = D \sqrt{\mathbb{E} \, (\langle P, f \rangle - f_y)^2},

the ``"analytic"`` form, from one forward pass. With biases, BatchNorm or residual
connections the identity fails; the form with :math:`D = 1` stays well defined for any
architecture and is the default.

Differs from the released code it stems from, which keeps :math:`D = 6` for every
architecture.

References:
    Liang et al., Fisher–Rao Metric, Geometry, and Complexity of Neural Networks,
    AISTATS 2019.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.types import check_types
from tepui.data.arrays import Batch
from tepui.data.loading import in_order
from tepui.losses import Loss, cross_entropy
from tepui.modules.running import device_of, forward, undisturbed
from tepui.sharpness.measurement import Data, Measurement, mean_of, name_of, select
from tepui.sharpness.recorder import Recorder
from tepui.sharpness.weights import WeightVector, along


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
        workers: Processes that load a data set of your own.

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
    num_samples: int | None = None,
    batch_size: int | None = None,
    generator: torch.Generator | None = None,
) -> Measurement:
    """Return the mean of :func:`sample_fisher_trace`.

    Args:
        model: Any module; left unchanged.
        dataset: A data set.
        loss: Returns one loss per sample.
        num_samples: How many samples; None takes all.
        batch_size: Samples per pass; the value does not depend on it.
        generator: Draws the samples; None always draws the same ones.

    Returns:
        A non-negative value, with its standard error over samples.
    """
    check_types(fisher_trace, locals())
    size = _batch_size(model, batch_size)
    batches = select(model, dataset, loss, size, num_samples, generator)
    scores = _scores(model, batches, loss, None)
    return mean_of(scores, batches.settings("fisher_trace"))


def _batch_size(model: nn.Module, asked: int | None) -> int:
    if asked is not None:
        return asked
    return 512 if device_of(model).type == "cuda" else 128


def _scores(
    model: nn.Module, batches: Iterable[Batch], loss: Loss, autocast: torch.dtype | None
) -> Tensor:
    with undisturbed(model), Recorder(model, loss, autocast).attached() as recorder:
        return torch.cat(list(map(recorder.score, batches)))


Form = Literal["analytic", "direct"]
Labels = Literal["empirical", "model"]


def fisher_rao(
    model: nn.Module,
    dataset: Data,
    *,
    loss: Loss = cross_entropy,
    method: Form = "analytic",
    labels: Labels = "empirical",
    depth: int = 1,
    squared: bool = False,
    num_samples: int | None = None,
    batch_size: int = 256,
    generator: torch.Generator | None = None,
) -> Measurement:
    """Return the Fisher–Rao norm of a model's weights.

    Args:
        model: Any module; left unchanged.
        dataset: A data set.
        loss: Returns one loss per sample.
        method: ``"analytic"`` from the outputs, or ``"direct"`` along the weights.
        labels: ``"empirical"`` takes the labels of the data; ``"model"`` the
            expectation over the model's own predictions, for cross-entropy only.
        depth: Factor of the analytic form: the number of linear layers of a
            homogeneous network.
        squared: Return the square of the norm.
        num_samples: How many samples; None takes all.
        batch_size: Samples per pass; the value does not depend on it.
        generator: Draws the samples; None always draws the same ones.

    Returns:
        A non-negative value, with its standard error over samples.

    Example:
        >>> from tepui.data import Arrays
        >>> _ = torch.manual_seed(0)
        >>> layers = nn.Linear(4, 8, bias=False), nn.ReLU(), nn.Linear(8, 3, bias=False)
        >>> model = nn.Sequential(*layers)
        >>> data = Arrays(torch.randn(20, 4), torch.arange(20) % 3)
        >>> analytic = fisher_rao(model, data, depth=2).value
        >>> direct = fisher_rao(model, data, method="direct").value
        >>> abs(analytic - direct) < 1e-5
        True
    """
    check_types(fisher_rao, locals())
    require(depth > 0, "depth", "be positive", depth)
    rule = "be 1 for method='direct', which needs no factor"
    require(method == "analytic" or depth == 1, "depth", rule, depth)
    fits = labels == "empirical" or loss is cross_entropy
    require(fits, "loss", "be cross_entropy for labels='model'", name_of(loss))
    batches = select(model, dataset, loss, batch_size, num_samples, generator)
    weights = WeightVector(model, loss) if method == "direct" else None

    def squares(batch: Batch) -> Tensor:
        if weights is None:
            with torch.no_grad():
                outputs = tangent = forward(model, batch.inputs).double()
        else:
            here = weights.vector
            passed = along(partial(weights.outputs, batch=batch), here, here, order=1)
            outputs, tangent = (part.double() for part in passed)
        tangent = depth * tangent
        if labels == "model":
            return _expected_square(outputs, tangent)
        return (_slope(outputs, batch.targets, loss) * tangent).flatten(1).sum(1) ** 2

    with undisturbed(model), sdpa_kernel(SDPBackend.MATH):
        values = torch.cat([squares(batch) for batch in batches])
    settings = batches.settings(
        "fisher_rao", method=method, labels=labels, depth=depth, squared=squared
    )
    square = mean_of(values, settings)
    return square if squared else _root(square)


def _slope(outputs: Tensor, targets: Tensor, loss: Loss) -> Tensor:
    """Return the gradient of each sample's loss with respect to its outputs."""
    with torch.enable_grad():
        leaf = outputs.detach().requires_grad_()
        if targets.is_floating_point():
            targets = targets.to(outputs.dtype)
        return torch.autograd.grad(loss(leaf, targets).sum(), leaf)[0]


def _expected_square(outputs: Tensor, tangent: Tensor) -> Tensor:
    r"""Return :math:`\mathbb{E}_{c \sim P} \langle P - e_c, t \rangle^2`."""
    probs = outputs.softmax(1)
    centered = tangent - (probs * tangent).sum(1, keepdim=True)
    return (probs * centered.square()).sum(1)


def _root(square: Measurement) -> Measurement:
    """Return the square root, its error to first order."""
    value = square.value**0.5
    error = square.standard_error / (2 * value) if value else square.standard_error
    return Measurement(value, error, square.settings)
