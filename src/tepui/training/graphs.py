"""Running members side by side on one GPU, each as a captured graph.

A member's whole step, optimizer included, is captured once and replayed on a stream of
its own. Between replays the host only queues copies into the graph's fixed inputs;
streams meet at the end of an epoch.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from tepui.data.arrays import Batch, Inputs
from tepui.methods.base import MemberMethod
from tepui.training.learner import Learner
from tepui.training.runner import EagerRunner, Plan, Runner

WARM_UP_STEPS = 4


@dataclass(frozen=True)
class Captured:
    """A member's step as a graph.

    Attributes:
        stream: Where it runs.
        graph: The step.
        batch: The tensors it reads.
        loss: The tensor its loss is written to.
    """

    stream: torch.cuda.Stream
    graph: torch.cuda.CUDAGraph
    batch: Batch
    loss: Tensor

    def replay(self, batch: Batch) -> None:
        """Queue one step on the current stream."""
        refill(self.batch, batch)
        self.graph.replay()


@final
class GraphRunner(Runner):
    """Captured steps, all members side by side.

    A step that draws random numbers on the device (dropout) is not captured, since a
    replay could not repeat its draws; such members run eagerly, with a warning.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._captured: dict[int, Captured] = {}
        self._exchanged: dict[int, int] = {}
        self._eager: EagerRunner | None = None

    def run_epoch(self, learners: Sequence[Learner], epoch: int) -> None:
        """Run what is left of an epoch."""
        last = (epoch + 1) * self.plan.steps
        if all(learner.step == last for learner in learners):
            return
        with torch.cuda.device(learners[0].losses.device):
            self._run(learners, epoch)

    def _run(self, learners: Sequence[Learner], epoch: int) -> None:
        exchanged = {learner.index: learner.exchanged for learner in learners}
        if self._eager is None and (not self._captured or exchanged != self._exchanged):
            # What members received changes their steps.
            self._captured, self._exchanged = {}, exchanged
            self._capture_all(learners, epoch)
        if self._eager is not None:
            self._eager.run_epoch(learners, epoch)
            return
        lanes = [(learner, *self._lane(learner, epoch)) for learner in learners]
        running = True
        while running and not self.plan.stopping():
            running = False
            for learner, captured, batches in lanes:
                running |= self._replay(learner, captured, batches)
        torch.cuda.synchronize()

    def _lane(self, learner: Learner, epoch: int) -> tuple[Captured, Iterator[Batch]]:
        rows = self.plan.rows_of(learner, epoch)
        batches = self.plan.source.batches(rows, learner.seed, epoch)
        return self._captured[learner.index], batches

    def _replay(
        self, learner: Learner, captured: Captured, batches: Iterator[Batch]
    ) -> bool:
        """Queue a member's next step; return whether there was one."""
        with torch.cuda.stream(captured.stream):
            batch = next(batches, None)
            if batch is None:
                return False
            learner.set_time(*self.plan.time(learner.step))
            captured.replay(batch)
            learner.losses[learner.step % self.plan.steps].copy_(captured.loss)
        learner.step += 1
        self.plan.advance(1)
        return True

    def _capture_all(self, learners: Sequence[Learner], epoch: int) -> None:
        for learner in learners:
            rows = self.plan.rows_of(learner, epoch)[:1]
            batch = next(self.plan.source.batches(rows, learner.seed, epoch))
            learner.member.module.train()
            learner.set_time(*self.plan.time(learner.step))
            captured = capture(learner, batch)
            if captured is None:
                warn_of_draws()
                self._captured, self._eager = {}, EagerRunner(self.plan)
                return
            self._captured[learner.index] = captured


def warn_of_draws() -> None:
    """Say why steps are not captured."""
    warnings.warn(
        "the model draws random numbers in its forward pass (dropout): its steps run "
        "eagerly instead of as captured graphs",
        stacklevel=3,
    )


def capture(learner: Learner, batch: Batch) -> Captured | None:
    """Capture a learner's step, leaving its state as it was."""
    fixed = fixed_batch(batch)
    before = {name: tensor.clone() for name, tensor in learner.tensors().items()}
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        learner.member.noise_seed = 0
        for _ in range(WARM_UP_STEPS):
            _step(learner, fixed)
        draws = torch.cuda.default_generators[stream.device_index].get_offset() > 0
        _rewind(learner, before)
    torch.cuda.synchronize()
    if draws:
        return None
    learner.member.noise_seed = None
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        loss = _step(learner, fixed)
    return Captured(stream, graph, fixed, loss)


def _step(learner: Learner, batch: Batch) -> Tensor:
    method = learner.method
    assert isinstance(method, MemberMethod)
    loss, gradients = method.gradient(learner.member, batch)
    learner.update(gradients)
    method.after_update(learner.member)
    return loss


def _rewind(learner: Learner, before: dict[str, Tensor]) -> None:
    """Undo warm-up in place; state that it created starts from zero."""
    with torch.no_grad():
        for name, tensor in learner.tensors().items():
            if name in before:
                tensor.copy_(before[name])
            else:
                tensor.zero_()


def fixed_batch(batch: Batch) -> Batch:
    """Return a copy of a batch for a graph to read from, in its fastest format."""
    return Batch(_fixed(batch.inputs), batch.targets.clone(), batch.index.clone())


def refill(fixed: Batch, batch: Batch) -> None:
    """Queue the copies that give a graph another batch of the same shape."""
    for old, new in zip(_tensors(fixed), _tensors(batch), strict=True):
        old.copy_(new, non_blocking=True)


def _tensors(batch: Batch) -> list[Tensor]:
    inputs = batch.inputs
    parts = [inputs] if isinstance(inputs, Tensor) else list(inputs.values())
    return [*parts, batch.targets, batch.index]


def _fixed(inputs: Inputs) -> Inputs:
    if not isinstance(inputs, Tensor):
        return {name: tensor.clone() for name, tensor in inputs.items()}
    if inputs.ndim == 4:
        return inputs.clone(memory_format=torch.channels_last)
    return inputs.clone()
