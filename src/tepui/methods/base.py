"""The kinds of training method.

A method is a frozen dataclass of hyperparameters with the mathematics of one update;
the engine owns optimizers, data, random numbers and checkpoints. Three kinds exist:

- :class:`MemberMethod`: members train independently;
- :class:`ExchangingMethod`: members also tell each other something between epochs;
- :class:`CoupledMethod`: members meet inside the loss.

A new method is one new file with one of these as its base.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.data.arrays import Batch
from tepui.methods.member import Gradient, Member


@dataclass(frozen=True, kw_only=True)
class Method:
    """Hyperparameters of a way to train an ensemble."""

    @property
    def needs_unlabeled(self) -> bool:
        """Whether a batch of unlabeled data comes with every batch."""
        return False

    def summary(self, states: Sequence[Mapping[str, Tensor]]) -> dict[str, Any]:
        """Return what a report should show of the members' states, as JSON holds it.

        Args:
            states: What the method kept for each member, in member order.

        Returns:
            Names and values; nothing by default.
        """
        return {}


@dataclass(frozen=True, kw_only=True)
class MemberMethod(Method, ABC):
    """A method whose members train independently of each other."""

    @property
    def fixed_shapes(self) -> bool:
        """Whether :meth:`gradient` meets the same shapes at every step."""
        return True

    @abstractmethod
    def gradient(self, member: Member, batch: Batch) -> Gradient:
        """Return the loss of a batch and the gradient to step along.

        Runs inside the training loop, and may be captured as a CUDA graph: fixed
        shapes, no reading of values, weights and buffers left as they were found
        (running statistics aside).

        Args:
            member: The member, with per-member hyperparameters resolved in ``self``.
            batch: The samples.

        Returns:
            Loss at the member's weights, and the gradient.
        """

    def after_update(self, member: Member) -> None:
        """Do something after the optimizer's step, such as averaging weights.

        Args:
            member: The member just updated.
        """

    def finish(self, member: Member, dataset: Dataset[Any]) -> None:
        """Do something to the last weights when the run has ended.

        Args:
            member: The member.
            dataset: The training data, not augmented.
        """


@dataclass(frozen=True, kw_only=True)
class ExchangingMethod(MemberMethod):
    """A method whose members exchange something before some epochs.

    Before such an epoch every member publishes one tensor, all of them are gathered
    (across processes too), and every member receives the list.
    """

    @abstractmethod
    def exchanges_before(self, epoch: int, epochs: int) -> bool:
        """Return whether members exchange before epoch ``epoch`` of ``epochs``."""

    @abstractmethod
    def publish(
        self,
        member: Member,
        index: int,
        dataset: Dataset[Any],
        generator: torch.Generator,
    ) -> Tensor:
        """Return what a member tells the others.

        Args:
            member: The member, its module in eval mode.
            index: Its position among the members.
            dataset: The training data, not augmented.
            generator: This member's stream of this exchange.

        Returns:
            A tensor of the same shape and type for every member.
        """

    @abstractmethod
    def receive(
        self,
        member: Member,
        index: int,
        published: Sequence[Tensor],
        generator: torch.Generator,
    ) -> None:
        """Take in what all members published, in member order.

        Args:
            member: The receiving member; what it concludes goes into its ``state``.
            index: Its position among the members.
            published: One tensor per member, its own included.
            generator: The same stream for every member of this exchange.
        """

    def strata(self, member: Member) -> Tensor | None:
        """Return a division of the training data that every batch should reflect.

        Args:
            member: The member, after it received.

        Returns:
            A boolean mask over the samples, some true and some false, or None for
            batches drawn from all data.
        """
        return None


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
    """A method whose members share each batch and meet inside the loss."""

    @property
    def fixed_shapes(self) -> bool:
        """Whether every turn has as many active and as many observed members."""
        return True

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
    def loss(self, meeting: CoupledBatch) -> Tensor:
        """Return the scalar that all active members descend together.

        Args:
            meeting: What the members of this turn bring.

        Returns:
            The scalar.
        """
