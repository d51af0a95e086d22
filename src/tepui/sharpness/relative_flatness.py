r"""Relative flatness of the last layer.

With the weights :math:`w_s` of class :math:`s`, features :math:`\varphi` and the mean
loss :math:`L`,

.. math::
    \kappa = \sum_{s, s'} \langle w_s, w_{s'} \rangle
    \operatorname{tr} \frac{\partial^2 L}{\partial w_s \, \partial w_{s'}}.

For softmax cross-entropy the Hessian's blocks are :math:`\mathbb{E}[(P_s \delta_{ss'} -
P_s P_{s'}) \varphi \varphi^\top]`, whatever the labels, and so

.. math::
    \kappa = \mathbb{E} \, \lVert \varphi \rVert^2 \operatorname{Var}_{s \sim P}(w_s)
    = \mathbb{E} \, \lVert \varphi \rVert^2 \,
    \tfrac12 \sum_{s, s'} P_s P_{s'} \lVert w_s - w_{s'} \rVert^2,

exactly, without a Hessian, in one pass. The last form has no cancellation, so that
confident predictions keep their digits. Class weights multiply each sample's share by
the weight of its class, the mean weight under a target that is spread over several.

Differs from the released code: the normalization of features is applied to the
features, not to the two parameters before the last layer; the mean over samples is
taken, where the published values fit a sum over batches of 256 better.

References:
    Petzka et al., Relative Flatness and Generalization, NeurIPS 2021.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import hessian

from tepui.core.checks import require
from tepui.core.types import check_types
from tepui.data.arrays import Inputs
from tepui.losses import CrossEntropy, Loss, cross_entropy
from tepui.modules.running import classifier_of, forward, undisturbed
from tepui.sharpness.layers import wide
from tepui.sharpness.measurement import Data, Measurement, mean_of, name_of, select

Form = Literal["closed_form", "hessian"]
Passed = tuple[Tensor, Tensor, Tensor]  # features, logits, targets


def relative_flatness(
    model: nn.Module,
    dataset: Data,
    *,
    loss: Loss = cross_entropy,
    method: Form = "closed_form",
    feature_norm: bool = False,
    weight_decay: float = 0.0,
    num_samples: int | None = None,
    batch_size: int = 256,
    generator: torch.Generator | None = None,
) -> Measurement:
    r"""Return the relative flatness of a model's last linear layer.

    Args:
        model: Any module with a linear layer; the last ``nn.Linear`` of its
            ``classifier``, or of the model, is taken.
        dataset: A data set.
        loss: Cross-entropy; any per-sample loss with ``method="hessian"``.
        method: ``"closed_form"``, or the dense ``"hessian"`` for verification.
        feature_norm: Divide each feature by its standard deviation over the data and
            multiply its weights by it.
        weight_decay: Adds :math:`2 \alpha \sum_s \lVert w_s \rVert^2`, as the released
            code does for networks trained with weight decay :math:`\alpha` (the trace
            of the penalty's own Hessian would be larger by the number of features).
        num_samples: How many samples; None takes all.
        batch_size: Samples per pass; the value does not depend on it.
        generator: Draws the samples; None always draws the same ones.

    Returns:
        A non-negative value, with its standard error over samples (NaN for
        ``"hessian"``).

    Example:
        >>> from tepui.data import Arrays
        >>> model = nn.Linear(1, 2, bias=False)
        >>> _ = model.weight.data.copy_(torch.tensor([[1.0], [-1.0]]))
        >>> data = Arrays(torch.zeros(1, 1), torch.tensor([0]))
        >>> relative_flatness(model, data).value  # no feature, no curvature
        0.0
    """
    check_types(relative_flatness, locals())
    require(weight_decay >= 0, "weight_decay", "be non-negative", weight_decay)
    classifies = loss is cross_entropy or isinstance(loss, CrossEntropy)
    rule = "be cross-entropy for the closed form (method='hessian' takes any)"
    require(method == "hessian" or classifies, "loss", rule, name_of(loss))
    batches = select(model, dataset, loss, batch_size, num_samples, generator)
    layer = classifier_of(model)
    with undisturbed(model), features_and_logits(model) as seen:
        passed: Iterable[Passed] = (
            (*seen(batch.inputs), batch.targets) for batch in batches
        )
        if feature_norm:
            held = list(passed)
            spread = _spread(torch.cat([features for features, _, _ in held]))
            passed = [(f / spread, z, targets) for f, z, targets in held]
        else:
            spread = torch.ones_like(layer.weight[0])
        parts = _parts(passed, layer, spread.detach(), loss, method)
    settings = batches.settings(
        "relative_flatness",
        method=method,
        feature_norm=feature_norm,
        weight_decay=float(weight_decay),
    )
    mean = mean_of(torch.cat(parts), settings)
    error = math.nan if method == "hessian" else mean.standard_error
    squares = float((layer.weight.detach() * spread).double().square().sum())
    return Measurement(mean.value + 2 * weight_decay * squares, error, settings)


def _parts(
    passed: Iterable[Passed], layer: nn.Linear, spread: Tensor, loss: Loss, method: Form
) -> list[Tensor]:
    """Return one value per sample, batch by batch."""
    weight = layer.weight.detach() * spread
    if method == "hessian":
        return [
            _by_hessian(features, targets, weight, layer.bias, loss)
            for features, _, targets in passed
        ]
    distances = _squared_distances(weight)
    return [
        _flatness(features, logits, distances) * _factors(logits, targets, loss)
        for features, logits, targets in passed
    ]


def _factors(logits: Tensor, targets: Tensor, loss: Loss) -> Tensor:
    """Return what class weights multiply each sample's Hessian by.

    A target's weights are in its loss where all classes are as likely, times the
    logarithm of their number.

    Example:
        >>> weighted = CrossEntropy(class_weights=(1.0, 3.0))
        >>> _factors(torch.zeros(2, 2), torch.tensor([0, 1]), weighted)
        tensor([1., 3.])
    """
    if not isinstance(loss, CrossEntropy) or loss.class_weights is None:
        return torch.ones((), device=logits.device)
    # One class alone has no curvature, whatever its weight.
    log_classes = math.log(max(logits.shape[1], 2))
    return loss(torch.zeros_like(wide(logits)), targets) / log_classes


def _flatness(features: Tensor, logits: Tensor, distances: Tensor) -> Tensor:
    r"""Return :math:`\lVert \varphi \rVert^2 \operatorname{Var}_{s \sim P}(w_s)`.

    Example:
        >>> distances = torch.tensor([[0.0, 4.0], [4.0, 0.0]]).double()
        >>> _flatness(torch.tensor([[3.0, 4.0]]), torch.zeros(1, 2), distances)
        tensor([25.])
    """
    probs = wide(logits).softmax(1)
    variance = 0.5 * ((probs @ distances.to(probs)) * probs).sum(1)
    return features.to(probs).square().sum(1) * variance


def _squared_distances(weight: Tensor) -> Tensor:
    """Return the squared distance of every pair of rows, without cancellation."""
    rows = weight.double()
    exact = "donot_use_mm_for_euclid_dist"
    return torch.cdist(rows, rows, compute_mode=exact).square()


def _spread(features: Tensor) -> Tensor:
    """Return each feature's standard deviation, one where it is zero."""
    deviation = features.std(0, correction=0)
    return torch.where(deviation > 0, deviation, 1.0)


def _by_hessian(
    features: Tensor, targets: Tensor, weight: Tensor, bias: Tensor | None, loss: Loss
) -> Tensor:
    """Return the flatness of a batch from its dense Hessian, once per sample."""
    shift = 0 if bias is None else bias.detach()
    H = hessian(lambda w: loss(features @ w.T + shift, targets).mean())(weight)
    value = torch.einsum("si,ti,sjtj->", weight, weight, H)
    return value.expand(len(targets))


@contextmanager
def features_and_logits(
    model: nn.Module,
) -> Iterator[Callable[[Inputs], tuple[Tensor, Tensor]]]:
    """Give a function that returns the last layer's inputs and outputs."""
    layer = classifier_of(model)
    seen: list[tuple[Tensor, Tensor]] = []

    def note(_layer: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
        seen.append((arguments[0], output))

    def pass_through(inputs: Inputs) -> tuple[Tensor, Tensor]:
        seen.clear()
        with torch.no_grad():
            outputs = forward(model, inputs)
        shapes = [tuple(output.shape) for _, output in seen]
        once = shapes == [tuple(outputs.shape)] and outputs.ndim == 2
        rule = "end in one use of its last linear layer, on (samples, features)"
        require(once, "model", rule, shapes)
        return seen[0]

    handle = layer.register_forward_hook(note)
    try:
        yield pass_through
    finally:
        handle.remove()
