"""What a training method sees of a member: gradients, moved weights and its state."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from torch import Tensor, nn

from tepui.data.arrays import Batch
from tepui.losses import Loss


class Gradient(NamedTuple):
    """A loss and its gradient.

    Attributes:
        loss: Mean loss of the batch at the member's weights, detached, without
            penalties that a method adds.
        values: One tensor per trainable parameter, zero where a weight is pruned.
    """

    loss: Tensor
    values: list[Tensor]


class Member(Protocol):
    """One member in training, as far as a method may know it.

    All passes within one step, whether asked for by outputs, losses or gradients, see
    the same dropout masks.

    Precision, compiling, streams, seeds of dropout and the optimizer are the business
    of :mod:`tepui.training` and do not appear here.

    Attributes:
        module: The member's module, on its device; of members that share an extractor
            the head, whose inputs are features.
        loss: Returns one loss per sample.
        parameters: The trainable parameters.
        learning_rate: The learning rate of this step, a scalar tensor.
        peak_learning_rate: The learning rate before any schedule.
        progress: Share of the run's steps that are done, a scalar tensor.
        phase: What the method calls the present part of the run
            (:meth:`tepui.methods.Method.phase`).
        samples: How many training samples there are.
        seed: The member's own, from which ``start`` may draw:
            ``tepui.core.generator(member.seed, "purpose")``.
        state: The tensors that the method declared in ``start``, by name.
    """

    module: nn.Module
    loss: Loss
    parameters: list[Tensor]
    learning_rate: Tensor
    peak_learning_rate: float
    progress: Tensor
    phase: str
    samples: int
    seed: int
    state: dict[str, Tensor]

    @property
    def buffers(self) -> list[Tensor]:
        """The module's buffers, such as BatchNorm's running statistics."""

    def outputs(self, batch: Batch) -> Tensor:
        """Return the module's outputs for a batch, in float32 or wider."""

    def losses(self, batch: Batch) -> Tensor:
        """Return one loss per sample, ready for backpropagation."""

    def gradient(self, batch: Batch) -> Gradient:
        """Return the mean loss of a batch and its gradient.

        Args:
            batch: The samples.

        Returns:
            Loss and gradient.
        """

    def gradients(self, first: Batch, second: Batch) -> tuple[Gradient, Gradient]:
        """Return what :meth:`gradient` does for two batches, one after the other.

        Args:
            first: Some samples.
            second: Others.

        Returns:
            Both losses with their gradients.
        """

    def masked(self, values: Sequence[Tensor]) -> list[Tensor]:
        """Return one tensor per trainable parameter, zero where a weight is pruned.

        Args:
            values: Gradients, or the parameters themselves.

        Returns:
            The same tensors for a dense member.
        """

    def moved(
        self, offsets: Sequence[Tensor], *, update_buffers: bool = False
    ) -> AbstractContextManager[None]:
        """Add offsets to the weights inside the block; restore them exactly after.

        Args:
            offsets: One tensor per trainable parameter.
            update_buffers: Keep what passes inside the block do to buffers; if false
                running statistics come out as they went in.

        Returns:
            The block.
        """
