"""The kinds of training method.

A method is a frozen dataclass of hyperparameters with the mathematics of one update;
training owns optimizers, data, random numbers and checkpoints. Three kinds exist:

- :class:`MemberMethod`: members train independently;
- :class:`ExchangingMethod`: members also tell each other something between epochs;
- :class:`CoupledMethod`: members meet inside the loss.

A new method is one new file with one of these as its base.

**What a step may do.** On a GPU a whole step is captured once as a CUDA graph and then
replayed: :meth:`MemberMethod.gradient`, :meth:`CoupledMethod.loss`,
:meth:`Method.after_update` and the optimizer. Before the capture training runs a few
steps on one batch to warm up and then takes all that they changed back, in place. What
these functions do must therefore

- keep its shapes from step to step, as :attr:`Method.fixed_shapes` promises;
- read no value of a tensor (``.item()``, ``float(tensor)``, ``if tensor:``), since the
  host runs them only once; what changes with time is read from tensors,
  ``member.progress`` and ``member.learning_rate``, or from ``member.phase``, with
  whose change the step is captured anew;
- leave weights and buffers as they were found, running statistics aside
  (``after_update`` may change weights);
- keep whatever outlives the step in ``member.state``, under the names that
  :meth:`Method.start` returned, and change those tensors in place. A name that appears
  later, or a tensor put in the place of another, is refused: its first value would be
  left over from warming up.

What members conclude from an exchange (:meth:`ExchangingMethod.receive`) goes into the
same tensors, also in place; it runs between epochs and may read values.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.moments import check_moment, epoch_of
from tepui.core.per_member import lists_of, per_member, values_of
from tepui.data.arrays import Batch
from tepui.methods.member import Gradient, Member
from tepui.optim import sam_perturbation


@dataclass(frozen=True, kw_only=True)
class Method:
    """Hyperparameters of a way to train an ensemble."""

    @property
    def needs_unlabeled(self) -> bool:
        """Whether a batch of unlabeled data comes with every batch."""
        return False

    @property
    def fixed_shapes(self) -> bool:
        """Whether every step meets the same shapes."""
        return True

    def phase(self, epoch: int, epochs: int) -> str:
        """Return the name of the phase in which an epoch lies.

        Within a phase all steps do the same; ``member.phase`` tells them which it is.

        Args:
            epoch: The epoch, counted from 0.
            epochs: Length of the run.

        Returns:
            The name; always ``"main"`` by default.
        """
        return "main"

    def start(self, member: Member) -> dict[str, Tensor]:
        """Return the tensors that the method keeps for a member, at their beginning.

        Called once before the first step, and before a graph's warm-up. Checkpoints
        hold them.

        Args:
            member: The member with its first weights, on its device.

        Returns:
            Tensors by name, none of which shares memory with the member's weights;
            nothing by default.
        """
        return {}

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

    def summary(self, states: Sequence[Mapping[str, Tensor]]) -> dict[str, Any]:
        """Return what a report should show of the members' states, as JSON holds it.

        Args:
            states: What the method kept for each member, in member order.

        Returns:
            Names and values, of which infinities and NaN become None; nothing by
            default.
        """
        return {}


@dataclass(frozen=True, kw_only=True)
class MemberMethod(Method, ABC):
    """A method whose members train independently of each other."""

    @abstractmethod
    def gradient(self, member: Member, batch: Batch) -> Gradient:
        """Return the loss of a batch and the gradient to step along.

        Args:
            member: The member, with per-member hyperparameters resolved in ``self``.
            batch: The samples.

        Returns:
            Loss at the member's weights, and the gradient.
        """


@dataclass(frozen=True, kw_only=True)
class SharpnessAware(MemberMethod):
    """A method that takes its gradient at weights moved uphill.

    Other methods use one as their ``base``.

    Attributes:
        rho: Length of the perturbation; one value, or one per member.
        adaptive: Measure the perturbation relative to each weight (ASAM).
        update_statistics: Let the perturbed pass update BatchNorm's running
            statistics too.
        start_at: When perturbing begins, an epoch or a share of the run; plain
            gradients before.
    """

    rho: float | tuple[float, ...] = per_member(0.05)
    adaptive: bool = False
    update_statistics: bool = False
    start_at: int | float = 0

    def __post_init__(self) -> None:
        require(min(values_of(self.rho)) >= 0, "rho", "be non-negative", self.rho)
        check_moment("start_at", self.start_at)

    def phase(self, epoch: int, epochs: int) -> str:
        """Return ``"plain"`` until ``start_at``."""
        return (
            "plain" if epoch < epoch_of("start_at", self.start_at, epochs) else "main"
        )

    def gradient(self, member: Member, batch: Batch) -> Gradient:
        """Return the loss here and the gradient that the perturbed weights give."""
        here = member.gradient(batch)
        return here if member.phase == "plain" else self.perturbed(member, batch, here)

    def perturbed(self, member: Member, batch: Batch, here: Gradient) -> Gradient:
        """Return the sharpness-aware gradient, reusing the unperturbed one.

        Args:
            member: The member.
            batch: The samples.
            here: Their loss and gradient at the member's weights.

        Returns:
            The loss here and the gradient to step along.
        """
        offsets = self.offsets(member, here.values)
        with member.moved(offsets, update_buffers=self.update_statistics):
            perturbed = member.gradient(batch).values
        return Gradient(here.loss, self.combined(here.values, perturbed))

    def offsets(self, member: Member, values: Sequence[Tensor]) -> list[Tensor]:
        """Return how far the weights move uphill.

        Args:
            member: The member.
            values: The gradient at its weights.

        Returns:
            One offset per trainable parameter, of joint length :meth:`radius`.
        """
        radius = self.radius(member)
        return sam_perturbation(member.parameters, values, radius, self.adaptive)

    def radius(self, member: Member) -> float | Tensor:
        """Return the length of the perturbation at this step."""
        assert not isinstance(self.rho, tuple), "resolve with for_member first"
        return self.rho

    @abstractmethod
    def combined(
        self, here: Sequence[Tensor], perturbed: Sequence[Tensor]
    ) -> list[Tensor]:
        """Return the gradient to step along from those at both points.

        Args:
            here: The gradient at the member's weights.
            perturbed: The gradient at the perturbed weights.

        Returns:
            One tensor per trainable parameter.
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
            member: The receiving member; what it concludes is copied into tensors of
                its ``state``, which :meth:`start` declared.
            index: Its position among the members.
            published: One tensor per member, its own included.
            generator: The same stream for every member of this exchange.
        """

    def divides_by(self, member: Member) -> Tensor | None:
        """Return which samples are of the first kind, if batches are to be divided.

        Asked at the start of the run and after every exchange. Every batch then holds
        the same number of samples of either kind and says so
        (:class:`tepui.data.arrays.Division`).

        Args:
            member: The member.

        Returns:
            A boolean mask over the training samples, or None for undivided batches.
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
    r"""A method whose members share each batch and meet inside the loss.

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

    def __post_init__(self) -> None:
        lists = {} if self.base is None else lists_of(self.base)
        rule = "have one value for all members where they are coupled inside the loss"
        require(not lists, "base", rule, lists)

    def phase(self, epoch: int, epochs: int) -> str:
        """Return the phase of the base."""
        return "main" if self.base is None else self.base.phase(epoch, epochs)

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
            The scalar.
        """
