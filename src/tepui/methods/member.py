"""What a training method sees of a member: gradients and perturbed weights."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from tepui.data.arrays import Batch
from tepui.losses import Loss
from tepui.modules.pruning import masks_of
from tepui.modules.running import blocks, forward


class Gradient(NamedTuple):
    """A loss and its gradient.

    Attributes:
        loss: Mean loss of the batch, detached.
        values: One tensor per trainable parameter, zero where a weight is pruned.
    """

    loss: Tensor
    values: list[Tensor]


@dataclass(frozen=True, eq=False)
class BatchSplit:
    """A division of the training data that every batch reflects.

    Attributes:
        first: Indices of the samples at the start of every batch.
        second: Indices of the samples that fill the rest.
        rows: How many samples of a batch are of the first kind.
    """

    first: Tensor
    second: Tensor
    rows: int

    @classmethod
    def of(cls, mask: Tensor, batch_size: int) -> Self:
        """Divide batches in proportion to the data, with both kinds in each.

        Args:
            mask: True for samples of the first kind, of which there are some but
                not all.
            batch_size: Samples per batch, at least two.

        Returns:
            The division.
        """
        first, second = mask.nonzero()[:, 0].cpu(), (~mask).nonzero()[:, 0].cpu()
        size = min(batch_size, len(mask))
        # BatchNorm cannot normalize one sample: two of each kind where there are.
        fewest = min(2, size // 2)
        lowest, highest = min(fewest, len(first)), size - min(fewest, len(second))
        rows = min(max(round(size * len(first) / len(mask)), lowest), highest)
        return cls(first, second, rows)

    @property
    def share(self) -> float:
        """Share of the samples that are of the first kind."""
        return len(self.first) / (len(self.first) + len(self.second))


class Member:
    """One member in training.

    Args:
        module: The member's module, on its device.
        loss: Returns one loss per sample.
        learning_rate: A scalar tensor that the engine keeps at today's value.
        run: What is called for outputs: the module, or a compiled form of it.
        autocast: Type in which the forward pass runs; None keeps the weights' own.
        accumulate: Into how many parts a batch is split to save memory.

    Attributes:
        parameters: The trainable parameters.
        sparse: Whether weights have masks (:mod:`tepui.modules.pruning`).
        state: Tensors a method keeps per member; the engine checkpoints them.
        strata: How batches are divided, if the method asks for it; kept by the engine.
        peak_learning_rate: The learning rate before any schedule.
        progress: Share of the run's steps that are done, a scalar tensor.
        noise_seed: Seeds dropout at the start of every pass, so that all passes of one
            step see the same masks; None leaves the generators alone.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        loss: Loss,
        learning_rate: Tensor,
        run: Callable[..., Any] | None = None,
        autocast: torch.dtype | None = None,
        accumulate: int = 1,
    ) -> None:
        self.module = module
        self.loss = loss
        self.learning_rate = learning_rate
        self.parameters: list[Tensor] = [
            p for p in module.parameters() if p.requires_grad
        ]
        self.sparse = bool(masks_of(module))
        self.state: dict[str, Tensor] = {}
        self.strata: BatchSplit | None = None
        self.peak_learning_rate = float(learning_rate)
        self.progress = torch.zeros_like(learning_rate)
        self.noise_seed: int | None = None
        self._run = module if run is None else run
        self._autocast = autocast
        self._accumulate = accumulate

    def clone(self, module: nn.Module, learning_rate: Tensor) -> Self:
        """Return a member that treats another module as this one treats its own.

        Args:
            module: A copy of the module.
            learning_rate: The copy's learning rate.

        Returns:
            A member without state.
        """
        compiled = self._run is not self.module
        return type(self)(
            module,
            loss=self.loss,
            learning_rate=learning_rate,
            run=torch.compile(module, dynamic=False) if compiled else module,
            autocast=self._autocast,
            accumulate=self._accumulate,
        )

    @property
    def buffers(self) -> list[Tensor]:
        """The module's buffers, such as BatchNorm's running statistics."""
        return list(self.module.buffers())

    def seeded_outputs(self, batch: Batch) -> Tensor:
        """Return the outputs for a batch with this step's dropout masks."""
        self._seed_noise()
        return self.outputs(batch)

    def outputs(self, batch: Batch) -> Tensor:
        """Return the module's outputs for a batch, in float32 or wider."""
        device = batch.targets.device.type
        with torch.autocast(device, self._autocast, enabled=self._autocast is not None):
            outputs = forward(self._run, batch.inputs)
        return outputs.float() if outputs.dtype.itemsize < 4 else outputs

    def losses(self, batch: Batch) -> Tensor:
        """Return one loss per sample, ready for backpropagation."""
        return self.losses_of(self.outputs(batch), batch.targets)

    def losses_of(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return one loss per sample from outputs that are there already."""
        losses = self.loss(outputs, targets)
        if losses.shape != targets.shape[:1]:
            raise ValueError(
                f"loss must return one value per sample ({len(targets)},), "
                f"got shape {tuple(losses.shape)}"
            )
        return losses

    def gradients(self, first: Batch, second: Batch) -> tuple[Gradient, Gradient]:
        """Return what :meth:`gradient` does for two batches, one after the other.

        Args:
            first: Some samples.
            second: Others.

        Returns:
            Both losses with their gradients. In a captured graph the backward pass of
            the first runs beside all of the second; forward passes, which may change
            buffers, keep their order.
        """
        captured = first.targets.is_cuda and torch.cuda.is_current_stream_capturing()
        if not captured or self._accumulate > 1:
            return self.gradient(first), self.gradient(second)
        here, beside = torch.cuda.current_stream(), torch.cuda.Stream()
        beside.wait_stream(here)
        # Both passes meet at the same parameters, on whose stream does not matter.
        expected = "The AccumulateGrad node's stream does not match"
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", expected)
            with torch.cuda.stream(beside):
                loss = self.losses(first).mean()
                here.wait_stream(beside)
                values = self._differentiated(loss)
            found = self.gradient(second)
        here.wait_stream(beside)
        return Gradient(loss.detach(), values), found

    def gradient(self, batch: Batch) -> Gradient:
        """Return the mean loss of a batch and its gradient.

        Args:
            batch: The samples.

        Returns:
            Loss and gradient, as if the batch had gone through at once; only
            BatchNorm sees the parts into which the batch is split.
        """
        self._seed_noise()
        total: Tensor | None = None
        summed: list[Tensor] = []
        size = -(-len(batch.targets) // self._accumulate)
        for part in blocks(batch, size):
            loss = self.losses(part).sum() / len(batch.targets)
            values = self._differentiated(loss)
            if total is None:
                total, summed = loss.detach(), values
            else:
                total = total + loss.detach()
                # Not in place: two parameters may share one gradient tensor.
                summed = list(torch._foreach_add(summed, values))
        assert total is not None
        return Gradient(total, summed)

    def masked(self, values: Sequence[Tensor]) -> list[Tensor]:
        """Return one tensor per trainable parameter, zero where a weight is pruned.

        Args:
            values: Gradients, or the parameters themselves.

        Returns:
            The same tensors for a dense member.
        """
        if not self.sparse:
            return list(values)
        masks = masks_of(self.module)
        names = [n for n, p in self.module.named_parameters() if p.requires_grad]
        return [
            value * masks[name] if name in masks else value
            for name, value in zip(names, values, strict=True)
        ]

    @contextmanager
    def moved(
        self, offsets: Sequence[Tensor], *, update_buffers: bool = False
    ) -> Iterator[None]:
        """Add offsets to the weights inside the block; restore them exactly after.

        Args:
            offsets: One tensor per trainable parameter.
            update_buffers: Keep what passes inside the block do to buffers; if false
                running statistics come out as they went in.
        """
        tensors = [*self.parameters, *([] if update_buffers else self.buffers)]
        before = [torch.empty_like(tensor) for tensor in tensors]
        _copy_all(tensors, before)
        try:
            with torch.no_grad():
                torch._foreach_add_(self.parameters, tuple(offsets))
            yield
        finally:
            _copy_all(before, tensors)

    def _differentiated(self, loss: Tensor) -> list[Tensor]:
        found = torch.autograd.grad(loss, self.parameters, materialize_grads=True)
        return self.masked(found)

    def _seed_noise(self) -> None:
        if self.noise_seed is None:
            return
        torch.default_generator.manual_seed(self.noise_seed)
        device = self.learning_rate.device
        if device.type == "cuda":
            torch.cuda.default_generators[device.index].manual_seed(self.noise_seed)


def _copy_all(tensors: Sequence[Tensor], into: Sequence[Tensor]) -> None:
    """Copy many tensors, all of one type in one kernel."""
    with torch.no_grad():
        for dtype in {tensor.dtype for tensor in tensors}:
            pairs = [p for p in zip(tensors, into, strict=True) if p[0].dtype == dtype]
            torch._foreach_copy_([p[1] for p in pairs], [p[0] for p in pairs])
