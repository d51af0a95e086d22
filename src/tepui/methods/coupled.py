"""The kind of method whose members meet inside the loss."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.members import lists_of
from tepui.methods.base import Method
from tepui.methods.sharpness_aware import SharpnessAware

ONLY_LABELS_TELL = (
    "members learn to disagree on the unlabeled data; whether they are right there "
    "more or less often than a deep ensemble, only labeled samples of the kind can tell"
)


class ActiveMembers(NamedTuple):
    """Who takes part in one step of coupled members.

    Attributes:
        active: The members that the step updates.
        observed: Further members whose outputs the loss sees, without gradient and in
            eval mode.
        progress: Share of their training that the active members have done, which the
            learning rate follows.
    """

    active: tuple[int, ...]
    observed: tuple[int, ...]
    progress: float


@dataclass(frozen=True)
class CoupledBatch:
    """What coupled members bring to one step.

    Attributes:
        outputs: Outputs of the active members, and after them of the observed ones
            unless those are observed on unlabeled data, ``(members, samples,
            outputs)``.
        losses: Per-sample losses of the active members, ``(active, samples)``.
        targets: The targets of the batch they share.
        unlabeled: Outputs of the active members, then of the observed ones, on a
            batch of the unlabeled data; None where the method asks for none.
    """

    outputs: Tensor
    losses: Tensor
    targets: Tensor
    unlabeled: Tensor | None


@dataclass(frozen=True, kw_only=True)
class CoupledMethod(Method, ABC):
    r"""A method whose members share each batch and meet inside the loss.

    The gradient of the joint loss, a mean over the active members, is multiplied by
    their number: each moves as it would by its own loss alone, and a learning rate
    means what it does for a deep ensemble. The papers' steps are these with a smaller
    learning rate; optimizers such as Adam do not tell the two apart.

    With a ``base`` the members are flat too. The joint loss :math:`L` is differentiated
    by each active member's own parameters, every active member is moved along its own
    gradient :math:`g_i` by its own radius, all of them together,

    .. math:: \theta_i + \rho \, g_i / \lVert g_i \rVert_2,

    and the joint loss is differentiated again there. Observed members stay where they
    are. Both passes see the same dropout masks.

    Differs from the papers, none of which combine the two: the norm is taken per member
    and not over all of them, so that a radius means what it means for a single member.

    Attributes:
        base: The sharpness-aware step, such as ``SAM(rho=0.05)``; None descends the
            joint loss itself.
    """

    base: SharpnessAware | None = None

    @property
    def compares_classes(self) -> bool:
        """Whether the loss takes outputs for logits of classes.

        Training then refuses losses that say otherwise.
        """
        return False

    def __post_init__(self) -> None:
        super().__post_init__()
        lists = {} if self.base is None else lists_of(self.base)
        rule = "have one value for all members where they are coupled inside the loss"
        require(not lists, "base", rule, lists)

    def phase(self, epoch: int, epochs: int) -> str:
        """Return the phase of the base."""
        return "main" if self.base is None else self.base.phase(epoch, epochs)

    def relative_cost(self, epoch: int, epochs: int) -> float:
        """Return what an epoch costs the base."""
        return 1.0 if self.base is None else self.base.relative_cost(epoch, epochs)

    def remark(self, members: int) -> str | None:
        """Return that labels alone can judge what members do with unlabeled data."""
        return ONLY_LABELS_TELL if self.needs_unlabeled else None

    def check_members(self, members: int) -> None:
        """Raise if the method cannot train this many members.

        Args:
            members: How many there are.
        """

    def least_steps(self, members: int) -> int:
        """Return the fewest steps of a run in which every member can have a turn."""
        return 1

    @abstractmethod
    def turn(
        self, members: int, progress: float, generator: torch.Generator
    ) -> ActiveMembers:
        """Return who takes part in the next step.

        Args:
            members: How many members there are.
            progress: Share of the run's steps that are done.
            generator: The stream of this step.

        Returns:
            Active and observed members; all others stay untouched, and the observed
            and resting ones keep their optimizer state.
        """

    @abstractmethod
    def loss(self, batch: CoupledBatch) -> Tensor:
        """Return the scalar that all active members descend together.

        Args:
            batch: What the members of this turn bring.

        Returns:
            The scalar, in which members' own losses count by their mean: its gradient
            is multiplied by the number of active members, so that each moves as it
            would alone.
        """
