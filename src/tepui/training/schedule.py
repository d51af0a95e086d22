"""Learning-rate schedules, as pure functions of the time in epochs."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

from tepui.core.checks import require
from tepui.core.members import count_of
from tepui.core.types import check_fields


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
