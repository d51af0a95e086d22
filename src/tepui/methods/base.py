"""The kinds of training method.

A method is a frozen dataclass of hyperparameters with the mathematics of one update;
training owns optimizers, data, random numbers and checkpoints. Three kinds exist:

- :class:`MemberMethod`: members train independently;
- :class:`ExchangingMethod`: members also tell each other something between epochs;
- :class:`~tepui.methods.CoupledMethod`: members meet inside the loss.

A new method is one new file with one of these as its base.

**What a step may do.** On a GPU a whole step is captured once as a CUDA graph and then
replayed: :meth:`MemberMethod.gradient`,
:meth:`CoupledMethod.loss <tepui.methods.CoupledMethod.loss>`,
:meth:`Method.after_update` and the optimizer. Before the capture training runs a few
steps on one batch to warm up and then undoes all that they changed, in place. What
these functions do must therefore

- keep its shapes from step to step, as :attr:`Method.fixed_shapes` promises;
- read no value of a tensor (``.item()``, ``float(tensor)``, ``if tensor:``), since the
  host runs them only once; what changes with time is read from tensors,
  ``member.progress`` and ``member.learning_rate``, or from ``member.phase``, with
  whose change the step is captured anew;
- draw no random numbers; those of the model's passes are seeded by member and step, in
  a captured graph as in an eager step;
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
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.types import check_fields
from tepui.data.arrays import Batch
from tepui.methods.member import Gradient, Member


@dataclass(frozen=True, kw_only=True)
class Method:
    """Hyperparameters of a way to train an ensemble.

    Attributes:
        average: Share of the run, at its end, over which each member's weights are
            averaged; the mean is validated, kept, and predicted with
            (:class:`tepui.methods.EoA`).
    """

    average: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        average, rule = self.average, "be a share of the run in (0, 1]"
        require(average is None or 0 < average <= 1, "average", rule, average)
        rule = "have no average, which the method around it has"
        for name, value in vars(self).items():
            inner = isinstance(value, Method) and value.average is not None
            require(not inner, name, rule, value)

    @property
    def needs_unlabeled(self) -> bool:
        """Whether a batch of unlabeled data comes with every batch."""
        return False

    @property
    def fixed_shapes(self) -> bool:
        """Whether every step meets the same shapes."""
        return True

    @property
    def scores_samples(self) -> bool:
        """Whether single samples are scored by their labels.

        Training then refuses to mix samples, and a loss of several views.
        """
        return False

    @property
    def successive(self) -> bool:
        """Whether members share the epochs, each going on from where the last ended."""
        return False

    def remark(self, members: int) -> str | None:
        """Return what somebody should know before such a run, in a sentence.

        It is shown above the progress.

        Args:
            members: How many there are.

        Returns:
            The sentence, without capital and full stop; nothing by default.
        """
        return None

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

    def relative_cost(self, epoch: int, epochs: int) -> float:
        """Return what an epoch costs beside others of the same run.

        By it the time left is estimated.

        Args:
            epoch: The epoch, counted from 0.
            epochs: Length of the run.

        Returns:
            About how many gradients a sample takes; always 1 by default.
        """
        return 1.0

    def prefix(self, epochs: int) -> tuple["Method", int]:
        """Return a method that trains like this one at first, and for how long.

        Runs that begin alike can then share their beginning. A method that is not its
        own prefix keeps state only if :meth:`start` does not read the weights, and
        changes it only after the epoch returned.

        Args:
            epochs: Length of the run.

        Returns:
            The simplest such method and the first epoch that differs; this method and
            all epochs by default.
        """
        return self, epochs

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
        """Return what a report should show of the members' states, ready for JSON.

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
