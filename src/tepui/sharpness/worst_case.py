r"""Worst-case sharpness: how far the loss can rise within a neighborhood.

.. math::
    S(\theta; \rho) = \operatorname{mean}_b \Big[
    \max_{\lVert T^{-1} e \rVert_q \le \rho} L_b(\theta + e) - L_b(\theta) \Big],
    \qquad q \in \{2, \infty\},

with :math:`T = \operatorname{diag}(|\theta|)` in the adaptive form, which is blind to
rescaled weights that leave the function unchanged, and :math:`T = I` otherwise. The
maximum of each small batch is sought by APGD (:func:`ascent`).

The variable is :math:`u` with :math:`e = T u`, so that the neighborhood is a ball or a
cube, the projection is exact, and weights that are zero stay zero.
``ascent="released"`` is the ascent of the published code instead
(:func:`released_ascent`), which finds less.

Differs from the released code, in either form: zero weights do not make the projection
fail silently, and on a GPU the ascent of a batch is one captured graph.

Small batches leave most of a GPU idle while the host launches hundreds of kernels for
every pass. A function that reads nothing back can be captured once and replayed for
every further batch of the same shape: the host then only copies the batch into the
graph's inputs. Several captures, each on its own stream, run in parallel.

References:
    Kwon et al., ASAM, ICML 2021. Croce and Hein, Reliable Evaluation of Adversarial
    Robustness with an Ensemble of Diverse Parameter-free Attacks, ICML 2020.
    Andriushchenko et al., A Modern Look at the Relationship between Sharpness and
    Generalization, ICML 2023, of whose code that of SharpBalance is a copy.
"""

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from tepui.core.checks import require
from tepui.core.types import check_types
from tepui.core.warning import warn
from tepui.data.arrays import Batch
from tepui.losses import Loss, cross_entropy
from tepui.modules.running import undisturbed
from tepui.sharpness.measurement import (
    Data,
    Measurement,
    Selection,
    mean_of,
    radii_of,
    select,
)
from tepui.sharpness.weights import WeightVector

Norm = Literal["l2", "linf"]
Slope = Callable[[Tensor], tuple[Tensor, Tensor]]
State = tuple[Tensor, Tensor, Tensor]  # value, point, gradient

EPSILON = 1e-12
DAMPING = 0.75
ENOUGH = 0.75
BISECTIONS = 50


def ascent(
    slope: Slope, scale: Tensor, *, rho: float, norm: Norm = "l2", steps: int = 20
) -> Tensor:
    r"""Return the largest rise of a function found by APGD.

    The maximum of a function over :math:`T u`, :math:`\lVert u \rVert_q \le \rho`, is
    sought by steps of length :math:`2 \rho` at first. At ever denser checkpoints the
    step is halved, with a return to the best point, when fewer than three quarters of
    the steps since the last checkpoint went up, or when neither the step nor the best
    value changed. Nothing is read back to the host: all decisions are tensors.

    Example:
        >>> height = torch.tensor([3.0, 4.0])
        >>> rise = ascent(lambda u: (height @ u, height), torch.ones(2), rho=2.0)
        >>> round(rise.item(), 4)
        10.0
    """
    point = torch.zeros_like(scale)
    start, gradient = slope(point)
    value, best = start, (start, point, gradient)
    step = torch.full_like(value, 2 * rho)
    gained = torch.zeros_like(value)
    halved = torch.zeros_like(value, dtype=torch.bool)
    last, best_before = -1, start
    judged = checkpoints(steps)
    for number in range(steps):
        goal = _projected(point + step * _toward(gradient, scale, norm), rho, norm)
        # A mean of two points of a convex set lies in it.
        point = goal if number == 0 else torch.lerp(point, goal, DAMPING)
        before = value
        value, gradient = slope(point)
        gained = gained + (value > before)
        best = _chosen(value > best[0], (value, point, gradient), best)
        if number in judged:
            few = gained < ENOUGH * (number - last)
            stuck = ~halved & (best[0] <= best_before)
            halved = few | stuck
            step = torch.where(halved, step / 2, step)
            value, point, gradient = _chosen(halved, best, (value, point, gradient))
            gained = torch.zeros_like(gained)
            last, best_before = number, best[0]
    return best[0] - start


def checkpoints(steps: int) -> list[int]:
    """Return the steps of APGD after which progress is judged, counted from zero.

    Example:
        >>> checkpoints(20)
        [5, 9, 12, 14, 16, 18, 19]
    """
    percent, gap, numbers = 22, 22, set()
    while percent <= 100:
        numbers.add(-(-percent * steps // 100))
        gap = max(gap - 3, 6)
        percent += gap
    return sorted(number for number in numbers if number < steps)


def released_ascent(
    slope: Slope, scale: Tensor, *, rho: float, norm: Norm = "l2", steps: int = 20
) -> Tensor:
    r"""Return the rise that the published ascent finds.

    It is as APGD, but for weights :math:`\theta + T u`

    - a step goes along :math:`T g`, normalized by :math:`\lVert g \rVert` instead of
      :math:`\lVert T g \rVert`, and ends at the nearest point of the ellipsoid;
    - it is averaged with the point before the last one, not with the last;
    - steps count as gains only where the best value so far was exceeded;
    - when the step is halved, the next gradient is that of the best point, but the
      step is taken from the last one.

    Written after the code's behavior. Differs from it in what it does with weights that
    are zero: they stay, where its projection fails without a word.

    Example:
        >>> height = torch.tensor([3.0, 4.0])
        >>> rise = released_ascent(lambda u: (height @ u, height), torch.ones(2), rho=2)
        >>> round(rise.item(), 4)
        10.0
    """
    point = earlier = torch.zeros_like(scale)
    start, gradient = slope(point)
    best, best_gradient = start, gradient
    step = step_then = torch.full_like(start, 2 * rho)
    gained, last, best_then = torch.zeros_like(start), 0, start
    judged = released_checkpoints(steps)
    for number in range(steps):
        if norm == "linf":
            goal = _projected(point + step * _toward(gradient, scale, norm), rho, norm)
        else:
            way = gradient * (scale > 0) / (gradient.norm() + EPSILON)
            goal = ellipsoid_projection(point + step * way, scale, rho)
        point, earlier = torch.lerp(earlier, goal, DAMPING), point
        value, gradient = slope(point)
        higher = value > best
        best = torch.where(higher, value, best)
        best_gradient = torch.where(higher, gradient, best_gradient)
        gained = gained + higher
        if number in judged:
            stuck = (step == step_then) & (best == best_then)
            halved = (gained < ENOUGH * (number - last)) | stuck
            step_then, best_then, last = step, best, number
            step = torch.where(halved, step / 2, step)
            gradient = torch.where(halved, best_gradient, gradient)
            gained = torch.zeros_like(gained)
    return best - start


def released_checkpoints(steps: int) -> list[int]:
    """Return the steps after which the published ascent judges its progress.

    Its shares are rounded up as floats, so that 0.7 of 20 is 15.

    Example:
        >>> released_checkpoints(20)
        [5, 9, 12, 15, 16, 18, 19]
    """
    before, share = 0.0, 0.22
    numbers = [0, math.ceil(share * steps)]
    while numbers[-1] < steps and numbers[-1] != numbers[-2]:
        before, share = share, share + max(share - before - 0.03, 0.06)
        numbers.append(math.ceil(share * steps))
    return sorted({number for number in numbers[1:] if number < steps})


def ellipsoid_projection(point: Tensor, scale: Tensor, rho: float) -> Tensor:
    r"""Return the :math:`u` within the ball whose :math:`T u` is nearest.

    The nearest point divides each coordinate by :math:`1 + 2\lambda / t^2`;
    :math:`\lambda` is found by bisection.

    Example:
        >>> ellipsoid_projection(torch.tensor([3.0, 4.0]), torch.ones(2), 1.0)
        tensor([0.6000, 0.8000])
    """
    squares = scale.square()
    point = point * (scale > 0)

    def shrunk(weight: Tensor) -> Tensor:
        return point * torch.where(squares > 0, squares / (squares + 2 * weight), 0.0)

    low = torch.zeros_like(point.norm())
    high = (point * squares).norm() / (2 * max(rho, EPSILON))
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        outside = shrunk(middle).norm() > rho
        low = torch.where(outside, middle, low)
        high = torch.where(outside, high, middle)
    return torch.where(point.norm() > rho, shrunk(high), point)


def _toward(gradient: Tensor, scale: Tensor, norm: Norm) -> Tensor:
    """Return the direction of a step, for u."""
    if norm == "linf":
        return gradient.sign() * (scale > 0)
    ascending = scale * gradient
    steepest: Tensor = ascending / (ascending.norm() + EPSILON)
    return steepest


def _projected(point: Tensor, rho: float, norm: Norm) -> Tensor:
    if norm == "linf":
        return point.clamp(-rho, rho)
    shrink: Tensor = (rho / (point.norm() + EPSILON)).clamp(max=1.0)
    return point * shrink


def _chosen(where: Tensor, these: State, others: State) -> State:
    first, second, third = (
        torch.where(where, a, b) for a, b in zip(these, others, strict=True)
    )
    return first, second, third


Ascent = Literal["exact", "released"]
ASCENTS = {"exact": ascent, "released": released_ascent}


@overload
def worst_case(
    model: nn.Module, dataset: Data, *, rho: float = ..., **options: Any
) -> Measurement: ...


@overload
def worst_case(
    model: nn.Module, dataset: Data, *, rho: Sequence[float], **options: Any
) -> tuple[Measurement, ...]: ...


def worst_case(  # type: ignore[misc]  # the overloads leave other options open
    model: nn.Module,
    dataset: Data,
    *,
    loss: Loss = cross_entropy,
    rho: float | Sequence[float] = 0.5,
    norm: Norm = "l2",
    adaptive: bool = True,
    num_steps: int = 20,
    ascent: Ascent = "exact",
    normalize_logits: bool = False,
    num_samples: int | None = 500,
    batch_size: int = 5,
    generator: torch.Generator | None = None,
) -> Measurement | tuple[Measurement, ...]:
    """Return the mean over batches of the largest rise in loss near the weights.

    Args:
        model: Any module; left unchanged.
        dataset: A data set. The paper takes training
            data without augmentation.
        loss: Returns one loss per sample.
        rho: Size of the neighborhood, or several.
        norm: What the neighborhood is measured in.
        adaptive: Measure it relative to each weight.
        num_steps: Steps of ascent; each costs one forward and one backward pass.
        ascent: ``"exact"`` in the steps it takes, or ``"released"``, that of the
            published code.
        normalize_logits: Take the scale of the logits out, as the released code can.
        num_samples: How many samples in total; None takes all.
        batch_size: Samples that share a perturbation: the value depends on it.
        generator: Draws the samples; None always draws the same ones.

    Returns:
        A value, at least zero, with its standard error over batches; for several
        ``rho`` one each.

    Example:
        >>> from tepui.data import Arrays
        >>> model = nn.Linear(2, 1, bias=False)
        >>> _ = model.weight.data.copy_(torch.tensor([[2.0, -1.0]]))
        >>> data = Arrays(torch.tensor([[3.0, 4.0]]), torch.zeros(1))
        >>> def linear(outputs, targets):
        ...     return outputs[:, 0]
        >>> measured = worst_case(model, data, loss=linear, rho=0.5, norm="linf")
        >>> round(measured.value, 5)  # 0.5 * (2 * 3 + 1 * 4)
        5.0
    """
    check_types(worst_case, locals())
    radii = radii_of(rho)
    require(num_steps > 0, "num_steps", "be positive", num_steps)
    batches = select(
        model, dataset, loss, batch_size, num_samples, generator, mixed=True
    )
    weights = WeightVector(model, loss, normalize_logits=normalize_logits)
    scale = weights.scale(adaptive=adaptive)
    settings = batches.settings(
        "worst_case",
        norm=norm,
        adaptive=adaptive,
        steps=num_steps,
        ascent=ascent,
        normalize_logits=normalize_logits,
        masked=weights.masked,
    )

    def rises(batch: Batch) -> Tensor:
        def slope(point: Tensor) -> tuple[Tensor, Tensor]:
            moved = (weights.vector + scale * point).requires_grad_()
            with torch.enable_grad():
                value = weights.losses(moved, batch).mean()
                (gradient,) = torch.autograd.grad(value, moved)
            return value.detach(), gradient

        climb = partial(ASCENTS[ascent], slope, scale, norm=norm, steps=num_steps)
        return torch.stack([climb(rho=r) for r in radii])

    with undisturbed(model):
        values = over_batches(rises, batches)
    several = tuple(
        mean_of(column, {**settings, "rho": float(r)})
        for r, column in zip(radii, values.T, strict=True)
    )
    return several if isinstance(rho, Sequence) else several[0]


# Graphs side by side, and how many batches must await one to make up for its capture.
LANES = 3
BATCHES_PER_LANE = 8


def over_batches(
    measure: Callable[[Batch], Tensor], batches: Selection | Collection[Batch]
) -> Tensor:
    """Return a function's result for every batch.

    Example:
        >>> ones = Batch(torch.ones(2, 3), torch.zeros(2), torch.arange(2))
        >>> over_batches(lambda batch: batch.inputs.sum(), [ones, ones])
        tensor([6., 6.])
    """
    results: list[Tensor] = []
    lanes: list[_Lane] = []
    wanted = min(LANES, -(-(len(batches) - 1) // BATCHES_PER_LANE))
    for number, batch in enumerate(batches):
        on_cuda = batch.targets.is_cuda
        if on_cuda and number == 0:
            results.append(_warmed_up(measure, batch))
            continue
        if on_cuda and number == 1:
            lanes = _captured(measure, batch, wanted)
        lane = lanes[number % len(lanes)] if lanes else measure
        results.append(lane(batch))
    for lane in lanes:
        lane.join()
    return torch.stack(results)


class _Lane:
    """A captured function of a batch, on a stream of its own."""

    def __init__(self, measure: Callable[[Batch], Tensor], batch: Batch) -> None:
        self._stream = torch.cuda.Stream()
        fixed = batch.mapped(Tensor.clone)
        self._inputs = _tensors(fixed)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=self._stream):
            self._result = measure(fixed)

    def __call__(self, batch: Batch) -> Tensor:
        """Queue the function for a batch; the result is ready after :meth:`join`."""
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            for fixed, new in zip(self._inputs, _tensors(batch), strict=True):
                fixed.copy_(new, non_blocking=True)
                new.record_stream(self._stream)
            self._graph.replay()
            result = self._result.clone()
        result.record_stream(current)
        return result

    def join(self) -> None:
        """Let the current stream wait for what is queued."""
        torch.cuda.current_stream().wait_stream(self._stream)


def _captured(
    measure: Callable[[Batch], Tensor], batch: Batch, lanes: int
) -> list[_Lane]:
    try:
        return [_Lane(measure, batch) for _ in range(lanes)]
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        warn(
            f"the model cannot be captured as a CUDA graph ({reason}): its passes are "
            "launched one by one, which is slower"
        )
        return []


def _warmed_up(measure: Callable[[Batch], Tensor], batch: Batch) -> Tensor:
    """Run on a side stream, as libraries must be set up before a capture."""
    current, stream = torch.cuda.current_stream(), torch.cuda.Stream()
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        result = measure(batch)
    current.wait_stream(stream)
    return result


def _tensors(batch: Batch) -> list[Tensor]:
    return [batch.targets, batch.index, *tree_leaves(batch.inputs)]
