r"""The largest rise near a point, by automatic projected gradient ascent (APGD).

The maximum of a function over :math:`T u`, :math:`\lVert u \rVert_q \le \rho`, is
sought by steps of length :math:`2 \rho` at first. At ever denser checkpoints the step
is halved, with a return to the best point, when fewer than three quarters of the steps
since the last checkpoint went up, or when neither the step nor the best value changed.
Nothing is read back to the host: all decisions are tensors.

The ascent of the published code (:func:`released_ascent`) finds less. It is as APGD,
but for weights :math:`\theta + T u`

- a step goes along :math:`T g`, normalized by :math:`\lVert g \rVert` instead of
  :math:`\lVert T g \rVert`, and ends at the nearest point of the ellipsoid;
- it is averaged with the point before the last one, not with the last;
- steps count as gains only where the best value so far was exceeded;
- when the step is halved, the next gradient is that of the best point, but the step is
  taken from the last one.

Written after the code's behavior. Differs from it in what it does with weights that are
zero: they stay, where its projection fails without a word.

References:
    Croce and Hein, Reliable Evaluation of Adversarial Robustness with an Ensemble of
    Diverse Parameter-free Attacks, ICML 2020. Andriushchenko et al., A Modern Look at
    the Relationship between Sharpness and Generalization, ICML 2023, of whose code that
    of SharpBalance is a copy.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

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
    """Return the rise that the published ascent finds.

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
