"""Forward and backward passes of one member, in the run's precision."""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from tepui.core import foreach
from tepui.core.checks import require
from tepui.core.seeding import derive
from tepui.data.arrays import Batch
from tepui.losses import CrossEntropy, Loss, jensen_shannon
from tepui.methods.member import Gradient
from tepui.modules.pruning import masks_of
from tepui.modules.running import as_taken, blocks, dtype_of, forward
from tepui.training.exchange import StepRanks, averaged

CAST_BY_AUTOCAST = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)


def rounding(
    autocast: torch.dtype | None, device: str
) -> AbstractContextManager[object]:
    """Return the block in which forward passes have the run's precision."""
    return nullcontext() if autocast is None else torch.autocast(device, autocast)


@dataclass(frozen=True, eq=False)
class Body:
    """The frozen part that members share, which runs once per batch for all of them."""

    module: nn.Module
    autocast: torch.dtype | None  # None keeps the weights' own

    def features(self, batch: Batch) -> Batch:
        """Return a batch of what heads see, of the samples and of their views."""
        inputs = batch.inputs
        if batch.views:
            inputs = torch.cat([inputs, *batch.views])  # type: ignore[list-item]
        with rounding(self.autocast, batch.targets.device.type), torch.no_grad():
            own, *views = forward(self.module, inputs).chunk(1 + len(batch.views))
        return batch._replace(inputs=own, views=tuple(views))


@dataclass(eq=False, repr=False)
class MemberPasses:
    """A member without an optimizer: all of :class:`tepui.methods.Member`."""

    module: nn.Module
    _: KW_ONLY
    loss: Loss
    learning_rate: Tensor
    samples: int
    seed: int = 0
    autocast: torch.dtype | None = None  # None keeps the weights' own
    accumulate: int = 1
    compiled: bool = False
    ranks: StepRanks | None = None  # which share batches; None if they are whole here
    sample_weights: Tensor | None = None

    def __post_init__(self) -> None:
        self.peak_learning_rate = float(self.learning_rate)
        self.progress = torch.zeros_like(self.learning_rate)
        self.phase = "main"
        self.state: dict[str, Tensor] = {}
        # Seeds dropout before every pass, so that all passes of a step see one mask.
        self.noise_seed: int | None = None
        # Does so in its stead while a step is captured, when no seed can be set.
        self.begin_captured_pass: Callable[[int | None], None] | None = None
        self._rank: int | None = None  # the one whose rows are running by themselves
        self._adopt(self.module)

    def _adopt(self, module: nn.Module) -> None:
        self.module = module
        self.parameters: list[Tensor] = [
            p for p in module.parameters() if p.requires_grad
        ]
        self.sparse = bool(masks_of(module))
        self._dtype = dtype_of(module)
        # Called as a function, it finds its inputs in the type that it computes in.
        self._run: Callable[..., Any] = module.__call__
        on_cuda = self.learning_rate.device.type == "cuda"
        if self.compiled:
            self._run = torch.compile(module)
        elif self.autocast is not None and on_cuda:
            self._run = CastModule(module, self.autocast)

    @property
    def buffers(self) -> list[Tensor]:
        """The module's buffers, such as BatchNorm's running statistics."""
        return list(self.module.buffers())

    def outputs(self, batch: Batch) -> Tensor:
        """Return the module's outputs for a batch, in float32 or wider."""
        self._require_all_rows()
        self.begin_pass()
        return self.unseeded_outputs(batch)

    def unseeded_outputs(self, batch: Batch) -> Tensor:
        """Return the outputs for a batch that is a part of a pass, or of no step."""
        inputs = batch.inputs
        if not isinstance(inputs, Tensor) or inputs.dtype != self._dtype:
            inputs = as_taken(self.module, inputs)
        with rounding(self.autocast, batch.targets.device.type):
            outputs = forward(self._run, inputs)
        return outputs.float() if outputs.dtype.itemsize < 4 else outputs

    def losses(self, batch: Batch) -> Tensor:
        """Return one loss per sample, ready for backpropagation."""
        self._require_all_rows()
        self.begin_pass()
        return self._losses_of_part(batch)

    def losses_of(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return one loss per sample for outputs already computed, as it is."""
        return losses_by(self.loss, outputs, targets)

    def _losses_of_part(self, batch: Batch) -> Tensor:
        """Return one loss per sample of a part of a pass.

        Views of the samples go through the module beside them, all at once.
        """
        if not batch.views:
            outputs = self.unseeded_outputs(batch)
            return losses_on(self.loss, outputs, batch, self.sample_weights)
        assert isinstance(self.loss, CrossEntropy)
        together = torch.cat([batch.inputs, *batch.views])  # type: ignore[list-item]
        outputs = self.unseeded_outputs(batch._replace(inputs=together))
        views = outputs.unflatten(0, (1 + len(batch.views), -1))
        losses = losses_on(self.loss, views[0], batch, self.sample_weights)
        apart = self.loss.consistency * jensen_shannon(views)
        return losses + weighted(apart, self.sample_weights, batch.index)

    def parts(self, batch: Batch) -> Iterator[Batch]:
        """Yield what of a batch goes through the module at once.

        Never a single sample, which BatchNorm could not normalize.
        """
        samples = len(batch.targets)
        size = max(2, -(-samples // self.accumulate))
        if samples % size != 1:
            yield from blocks(batch, size)
            return
        last = max(0, samples - size - 1)
        if last > 0:
            yield from blocks(batch.take(slice(0, last)), size)
        yield batch.take(slice(last, None))

    def gradient(self, batch: Batch) -> Gradient:
        """Return the mean loss of a batch, also of other ranks' rows, and its gradient.

        As if the batch had gone through at once; only BatchNorm sees the parts into
        which it is split.
        """
        if self.ranks is None:
            return self._gradient_here(batch)
        # Buffers move by the mean over ranks, too.
        changing = [buffer for buffer in self.buffers if buffer.dtype != torch.bool]
        before = [buffer.clone() for buffer in changing]
        self._rank = self.ranks.rank
        try:
            loss, values = self._gradient_here(batch)
        finally:
            self._rank = None
        changes = [now - then for now, then in zip(changing, before, strict=True)]
        found = [loss, *values, *changes]
        loss, *means = averaged(self.ranks, len(batch.targets), found)
        changes = means[len(values) :]
        foreach.copy_(changing, [b + c for b, c in zip(before, changes, strict=True)])
        return Gradient(loss, means[: len(values)])

    def _gradient_here(self, batch: Batch) -> Gradient:
        """Return the mean loss of the rows that are here, and its gradient."""
        self.begin_pass()
        samples = len(batch.targets)
        total: Tensor | None = None
        summed: list[Tensor] = []
        for part in [batch] if self.accumulate == 1 else self.parts(batch):
            loss, values = self._differentiated(self._losses_of_part(part), samples)
            if total is None:
                total, summed = loss, values
            else:
                total = total + loss
                # Not in place: two parameters may share one gradient tensor.
                summed = foreach.add(summed, values)
        assert total is not None
        return Gradient(total, summed)

    def gradients(self, first: Batch, second: Batch) -> tuple[Gradient, Gradient]:
        """Return what :meth:`gradient` does for two batches, one after the other.

        In a captured graph the backward pass of the first runs beside all of the
        second; forward passes, which may change buffers, keep their order.
        """
        captured = first.targets.is_cuda and torch.cuda.is_current_stream_capturing()
        if not captured or self.accumulate > 1 or self.ranks is not None:
            return self.gradient(first), self.gradient(second)
        here = torch.cuda.current_stream()
        aside = beside(here)
        aside.wait_stream(here)
        # Both passes meet at the same parameters, on whose stream does not matter.
        expected = "The AccumulateGrad node's stream does not match"
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", expected)
            with torch.cuda.stream(aside):
                losses = self.losses(first)
                here.wait_stream(aside)
                found = self._differentiated(losses, len(losses))
            other = self.gradient(second)
        here.wait_stream(aside)
        return found, other

    def masked(self, values: Sequence[Tensor]) -> list[Tensor]:
        """Return one tensor per trainable parameter, zero where a weight is pruned."""
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
        """Add offsets to the weights inside the block; restore them exactly after."""
        tensors = [*self.parameters, *([] if update_buffers else self.buffers)]
        before = [torch.empty_like(tensor) for tensor in tensors]
        foreach.copy_(before, tensors)
        try:
            with torch.no_grad():
                foreach.add_(self.parameters, offsets)
            yield
        finally:
            foreach.copy_(tensors, before)

    def _differentiated(self, losses: Tensor, samples: int) -> Gradient:
        """Return what losses add to the mean over some samples, differentiated."""
        shares = torch.full_like(losses, 1 / samples)
        values = torch.autograd.grad(
            losses, self.parameters, shares, materialize_grads=True
        )
        return Gradient(losses.detach().sum() / samples, self.masked(values))

    def _require_all_rows(self) -> None:
        """Refuse passes that would be of this rank's rows, and tell others nothing."""
        rule = "take gradients by member.gradient where ranks share a batch"
        here = self.ranks is None or self._rank is not None
        require(here, "method", rule, "member.losses or member.outputs")

    def begin_pass(self) -> None:
        """Let the draws of a pass be those of its step, and of the rank's rows."""
        if self.begin_captured_pass is not None:
            self.begin_captured_pass(self._rank)
        elif self.noise_seed is not None:
            seed = rank_seed(self.noise_seed, self._rank)
            torch.default_generator.manual_seed(seed)
            device = self.learning_rate.device
            if device.type == "cuda":
                torch.cuda.default_generators[device.index].manual_seed(seed)


def rank_seed(seed: int, rank: int | None) -> int:
    """Return what seeds the draws of a pass over a rank's rows, or a whole batch."""
    return seed if rank is None else derive(seed, "rank", rank)


def weighted(losses: Tensor, weights: Tensor | None, index: Tensor) -> Tensor:
    """Return losses times the weights of their samples, if these have any.

    Example:
        >>> weights, index = torch.tensor([2.0, 0.5, 3.0]), torch.tensor([2, 0])
        >>> weighted(torch.ones(2), weights, index)
        tensor([3., 2.])
    """
    return losses if weights is None else losses * weights[index].to(losses.dtype)


def losses_on(
    loss: Loss, outputs: Tensor, batch: Batch, weights: Tensor | None
) -> Tensor:
    """Return one loss per sample, where samples are mixed those of both labels.

    Each label weighs what its own sample does.
    """
    losses = weighted(losses_by(loss, outputs, batch.targets), weights, batch.index)
    if batch.partners is None:
        return losses
    targets, index, share = batch.partners
    others = weighted(losses_by(loss, outputs, targets), weights, index)
    share = share.to(losses.dtype)
    return share * losses + (1 - share) * others


def losses_by(loss: Loss, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return one loss per sample, which is what a loss must return."""
    losses = loss(outputs, targets)
    if not isinstance(losses, Tensor) or losses.shape != targets.shape[:1]:
        got = tuple(losses.shape) if isinstance(losses, Tensor) else losses
        rule = f"return one value per sample ({len(targets)},), as torch's losses do"
        require(False, "loss", f"{rule} with reduction='none'", got)
    return losses


class CastModule:
    """A module that is called with copies of its weights in another type.

    Autocast casts every weight by a kernel of its own, and every gradient back by
    another: a sixth of the launches of a step of ResNet-18. Here one kernel casts all
    of them. The values are the same.
    """

    def __init__(self, module: nn.Module, dtype: torch.dtype) -> None:
        self._module = module
        self._weights = weights_to_cast(module)
        self._dtype = dtype

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Call the module; gradients reach its own weights, in their own type."""
        weights = self._weights.values()
        copies = _Cast.apply(self._dtype, *weights)  # type: ignore[no-untyped-call]
        given = dict(zip(self._weights, copies, strict=True))
        return functional_call(self._module, given, inputs, named)


def weights_to_cast(module: nn.Module) -> Mapping[str, nn.Parameter]:
    """Return the trainable float32 weights that only a layer of a known kind uses."""
    named = list(module.named_parameters(remove_duplicate=False))
    uses = [id(parameter) for _, parameter in named]
    own = {
        f"{path}.{name}" if path else name
        for path, part in module.named_modules()
        if type(part) in CAST_BY_AUTOCAST
        for name in part._parameters
    }
    return {
        name: parameter
        for name, parameter in named
        if name in own
        and parameter.requires_grad
        and parameter.dtype == torch.float32
        and uses.count(id(parameter)) == 1
    }


class _Cast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.weights = weights
        copies = [torch.empty_like(weight, dtype=dtype) for weight in weights]
        foreach.copy_(copies, weights)
        return tuple(copies)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        found = [
            None if grad is None else torch.empty_like(weight)
            for weight, grad in zip(ctx.weights, grads, strict=True)
        ]
        pairs = [
            (target, grad)
            for target, grad in zip(found, grads, strict=True)
            if target is not None and grad is not None
        ]
        # One kernel serves only tensors that are laid out alike.
        alike = [pair for pair in pairs if pair[0].stride() == pair[1].stride()]
        foreach.copy_([pair[0] for pair in alike], [pair[1] for pair in alike])
        for target, grad in pairs:
            if target.stride() != grad.stride():
                target.copy_(grad)
        return None, *found


# Queues between host and GPU, read when CUDA begins: with torch's eight, more members
# than that wait for each other.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")


@cache
def lane(device: torch.device, number: int) -> torch.cuda.Stream:
    """Return the stream on which the member of a number runs, always the same.

    Torch keeps a workspace for every stream on which it multiplied matrices; with new
    streams for every run, a process would hold more memory after each.
    """
    return torch.cuda.Stream(device)


@cache
def beside(stream: torch.cuda.Stream) -> torch.cuda.Stream:
    """Return a stream for what may run beside a stream's own work."""
    return torch.cuda.Stream(stream.device)
