r"""Automatic projected gradient ascent (APGD): the largest rise near a point.

The maximum of a function over :math:`T u`, :math:`\lVert u \rVert_q \le \rho`, is
sought by steps of length :math:`2 \rho` at first. At ever denser checkpoints the step
is halved, with a return to the best point, when fewer than three quarters of the steps
since the last checkpoint went up, or when neither the step nor the best value changed.
Nothing is read back to the host: all decisions are tensors.

References:
    Croce and Hein, Reliable Evaluation of Adversarial Robustness with an Ensemble of
    Diverse Parameter-free Attacks, ICML 2020.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Norm = Literal["l2", "linf"]
Slope = Callable[[Tensor], tuple[Tensor, Tensor]]

EPSILON = 1e-12
DAMPING = 0.75
ENOUGH = 0.75


def ascent(
    slope: Slope,
    scale: Tensor,
    *,
    rho: float,
    norm: Norm = "l2",
    steps: int = 20,
) -> Tensor:
    r"""Return the largest rise of a function found by APGD.

    Example:
        >>> height = torch.tensor([3.0, 4.0])
        >>> rise = ascent(lambda u: (height @ u, height), torch.ones(2), rho=2.0)
        >>> round(rise.item(), 4)
        10.0
    """
    toward, project = _geometry(scale, rho, norm)
    point = torch.zeros_like(scale)
    value, gradient = slope(point)
    start, best = value, _Best(value, point, gradient)
    step = torch.full_like(value, 2 * rho)
    gained = torch.zeros_like(value)
    halved = torch.zeros_like(value, dtype=torch.bool)
    last, best_before = -1, best.value
    judged = checkpoints(steps)
    for number in range(steps):
        goal = project(point + step * toward(gradient))
        # A mean of two points of a convex set lies in it.
        point = goal if number == 0 else torch.lerp(point, goal, DAMPING)
        before = value
        value, gradient = slope(point)
        gained = gained + (value > before)
        best = best.or_better(value, point, gradient)
        if number in judged:
            few = gained < ENOUGH * (number - last)
            stuck = ~halved & (best.value <= best_before)
            halved = few | stuck
            step = torch.where(halved, step / 2, step)
            value = torch.where(halved, best.value, value)
            point = torch.where(halved, best.point, point)
            gradient = torch.where(halved, best.gradient, gradient)
            gained = torch.zeros_like(gained)
            last, best_before = number, best.value
    return best.value - start


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


class _Best(NamedTuple):
    """The highest point so far."""

    value: Tensor
    point: Tensor
    gradient: Tensor

    def or_better(self, value: Tensor, point: Tensor, gradient: Tensor) -> "_Best":
        higher = value > self.value
        return _Best(
            torch.where(higher, value, self.value),
            torch.where(higher, point, self.point),
            torch.where(higher, gradient, self.gradient),
        )


def _geometry(
    scale: Tensor, rho: float, norm: Norm
) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """Return the direction of a step and the projection, both for u."""
    free = scale > 0

    def toward(gradient: Tensor) -> Tensor:
        if norm == "linf":
            return gradient.sign() * free
        ascending = scale * gradient
        steepest: Tensor = ascending / (ascending.norm() + EPSILON)
        return steepest

    def project(point: Tensor) -> Tensor:
        if norm == "linf":
            return point.clamp(-rho, rho)
        shrink: Tensor = (rho / (point.norm() + EPSILON)).clamp(max=1.0)
        return point * shrink

    return toward, project
