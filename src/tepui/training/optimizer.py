"""The base optimizers and learning-rate schedules of a run, as values.

Optimizers build torch optimizers; schedules are functions of the time in epochs.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from tepui.core import foreach
from tepui.core.checks import require
from tepui.core.members import count_of, per_member, require_each
from tepui.core.types import check_fields

Optimizer = Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]


@final
@dataclass(frozen=True, kw_only=True)
class SGD:
    """Stochastic gradient descent with momentum.

    Attributes:
        lr: Learning rate at its peak; one value, or one per member.
        momentum: Share of the last update that is kept.
        weight_decay: Pull toward zero, on all parameters; one value, or one each.
        nesterov: Look ahead along the momentum.
    """

    lr: float | tuple[float, ...] = per_member(0.1)
    momentum: float = 0.9
    weight_decay: float | tuple[float, ...] = per_member(5e-4)
    nesterov: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        _check(self.lr, self.weight_decay)
        require(0 <= self.momentum < 1, "momentum", "lie in [0, 1)", self.momentum)

    def __call__(self, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
        """Build the optimizer."""
        return torch.optim.SGD(
            parameters,
            lr=_learning_rate(self.lr, parameters),
            momentum=self.momentum,
            weight_decay=_scalar(self.weight_decay),
            nesterov=self.nesterov,
            fused=_on_cuda(parameters),
        )


@final
@dataclass(frozen=True, kw_only=True)
class AdamW:
    """Adam with decoupled weight decay.

    Attributes:
        lr: Learning rate at its peak; one value, or one per member.
        betas: Decay of the running mean and of the running square.
        eps: Added to the denominator.
        weight_decay: Decoupled decay; one value, or one per member.
    """

    lr: float | tuple[float, ...] = per_member(1e-3)
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float | tuple[float, ...] = per_member(0.01)

    def __post_init__(self) -> None:
        check_fields(self)
        _check(self.lr, self.weight_decay)

    def __call__(self, parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
        """Build the optimizer."""
        on_cuda = _on_cuda(parameters)
        return torch.optim.AdamW(
            parameters,
            lr=_learning_rate(self.lr, parameters),
            betas=self.betas,
            eps=self.eps,
            weight_decay=_scalar(self.weight_decay),
            fused=on_cuda,
            capturable=on_cuda,
        )


def clip(gradients: list[Tensor], max_norm: float) -> None:
    """Scale gradients in a list so that their joint norm is at most ``max_norm``."""
    scale = (max_norm / (foreach.norm(gradients) + 1e-6)).clamp(max=1.0)
    # Not in place: two parameters may share one gradient tensor.
    gradients[:] = foreach.scale(gradients, scale)


def capturable(optimizer: torch.optim.Optimizer) -> bool:
    """Return whether a step of this optimizer can be part of a CUDA graph.

    Only those whose state begins at zero, to which warming up is taken back.
    """
    is_sgd = isinstance(optimizer, torch.optim.SGD)
    starts_at_zero = is_sgd or isinstance(
        optimizer, torch.optim.Adam | torch.optim.AdamW
    )
    return starts_at_zero and all(
        isinstance(group["lr"], Tensor) and (is_sgd or group.get("capturable", False))
        for group in optimizer.param_groups
    )


def _learning_rate(
    lr: float | tuple[float, ...], parameters: list[torch.nn.Parameter]
) -> Any:
    """Return a number, or on CUDA a tensor that a captured graph can read."""
    value = _scalar(lr)
    if _on_cuda(parameters):
        return torch.tensor(value, device=parameters[0].device)
    return value


def _on_cuda(parameters: list[torch.nn.Parameter]) -> bool:
    return parameters[0].device.type == "cuda"


def _scalar(value: float | tuple[float, ...]) -> float:
    assert not isinstance(value, tuple | list), "resolve with for_member first"
    return value


def _check(lr: object, weight_decay: object) -> None:
    require_each(lambda rate: rate > 0, "lr", "be positive", lr)
    rule = "be non-negative"
    require_each(lambda decay: decay >= 0, "weight_decay", rule, weight_decay)


@dataclass(frozen=True, kw_only=True)
class Schedule(ABC):
    """A factor on the learning rate over the course of a run.

    Attributes:
        warmup: Length, in epochs, of a linear rise from zero at the start.
    """

    warmup: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.warmup >= 0, "warmup", "be non-negative", self.warmup)

    def factor(self, step: int, steps_per_epoch: int, epochs: int) -> float:
        """Return the factor for one step of a run.

        Args:
            step: Steps done before this one.
            steps_per_epoch: Steps in an epoch.
            epochs: Length of the run.

        Returns:
            A number in [0, 1]; positive at the first step of a warm-up.
        """
        rise = 1.0
        if self.warmup:
            rise = min(1.0, (step + 1) / (self.warmup * steps_per_epoch))
        return rise * self.shape(step / steps_per_epoch, epochs)

    @abstractmethod
    def shape(self, time: float, epochs: int) -> float:
        """Return the factor without warm-up, ``time`` epochs into the run."""


@final
@dataclass(frozen=True, kw_only=True)
class Constant(Schedule):
    """The same learning rate throughout."""

    def shape(self, time: float, epochs: int) -> float:
        """Return 1."""
        return 1.0


@final
@dataclass(frozen=True, kw_only=True)
class MultiStep(Schedule):
    """Multiply the learning rate by ``gamma`` at each milestone.

    Attributes:
        milestones: Integers are epochs, fractions below 1 are shares of the run,
            rounded down to epochs but to no less than one.
        gamma: The factor.
    """

    milestones: tuple[int | float, ...] = (0.5, 0.75)
    gamma: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            all(milestone > 0 for milestone in self.milestones),
            "milestones",
            "be positive",
            self.milestones,
        )
        require(0 < self.gamma <= 1, "gamma", "lie in (0, 1]", self.gamma)

    def shape(self, time: float, epochs: int) -> float:
        """Return ``gamma`` to the number of milestones passed."""
        done = math.floor(time)
        passed = sum(done >= self._epoch(m, epochs) for m in self.milestones)
        return self.gamma**passed

    @staticmethod
    def _epoch(milestone: int | float, epochs: int) -> int:
        if isinstance(milestone, int) or milestone >= 1:
            return int(milestone)
        return max(1, count_of(milestone, epochs))


@final
@dataclass(frozen=True, kw_only=True)
class Cosine(Schedule):
    """Fall along half a cosine, updated at every step.

    Attributes:
        final: The factor at the end.
    """

    final: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.final <= 1, "final", "lie in [0, 1]", self.final)

    def shape(self, time: float, epochs: int) -> float:
        """Return the cosine between 1 and ``final``."""
        wave = (1 + math.cos(math.pi * min(time / epochs, 1.0))) / 2
        return self.final + (1 - self.final) * wave
