"""The course of a run: epochs, exchanges, validation, records and checkpoints."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core import foreach
from tepui.core.members import for_member
from tepui.core.seeding import derive, generator, seeded
from tepui.core.storage import reading
from tepui.data.arrays import Batch
from tepui.data.loading import length
from tepui.data.stored import whole
from tepui.methods.base import ExchangingMethod
from tepui.modules.features import features_of
from tepui.modules.pruning import apply_masks
from tepui.modules.running import evaluating
from tepui.tasks import Task, task_of
from tepui.training.averaging import at_average, averaged_tensors, means_of
from tepui.training.batches import BatchSplit
from tepui.training.history import EpochRecord
from tepui.training.member import (
    Best,
    TrainingDiverged,
    TrainingMember,
    document_of,
    restore,
    tensors_of,
)
from tepui.training.passes import MemberPasses
from tepui.training.prepare import Order
from tepui.training.progress import Progress
from tepui.training.run_folder import (
    Checkpoint,
    RunFolder,
    commit,
    write_frozen,
    write_member,
)
from tepui.training.runner import Interruption, Runner

WRITERS = 4  # members whose part of a checkpoint is written at a time


def validated(
    members: Sequence[MemberPasses],
    batches: Iterable[Batch],
    task: Task,
    unit: float = 1.0,
) -> list[dict[str, float]]:
    """Return members' scores on validation data, by their names in a record.

    Errors of numbers are in the unit that a difference of 1 stands for.
    """
    samples, device = 0, members[0].learning_rate.device
    # Of every member its loss, what it scores, and of how many.
    sums = torch.zeros(len(members), 3, dtype=torch.float64, device=device)
    with ExitStack() as stack, torch.no_grad():
        for member in members:
            stack.enter_context(evaluating(member.module))
        for batch in batches:
            samples += len(batch.targets)
            for row, member in zip(sums, members, strict=True):
                outputs = member.unseeded_outputs(batch)
                row[0] += member.losses_of(outputs, batch.targets).double().sum()
                row[1:] += task.measured(outputs, batch.targets)
    found = []
    for loss, score, count in sums.tolist():
        found.append({"validation_loss": loss / samples})
        if count:
            share = score / count
            shown = share if task.measure == "accuracy" else unit * math.sqrt(share)
            found[-1][f"validation_{task.measure}"] = shown
    return found


class MemberRow(NamedTuple):
    """What the record of an epoch says of a member."""

    loss: float | None
    joint_loss: float | None
    learning_rate: float
    validation: dict[str, float]  # nothing without validation data
    peak_memory: int | None  # of the process that trains it


@dataclass(eq=False)
class Training:
    """A run in progress."""

    order: Order
    members: Sequence[TrainingMember]  # the members that this process trains, if any
    runner: Runner
    validation: Callable[[], Iterator[Batch]] | None
    progress: Progress
    interruption: Interruption  # whether a signal asked to stop
    history: list[EpochRecord] = field(default_factory=list)
    generation: int = 0  # how many checkpoints the run has written
    stopped_by: str | None = None  # who ended it before its last epoch

    def __post_init__(self) -> None:
        order = self.order
        self.spec, self.clock = order.spec, order.clock
        self.exchange, self.folder = order.exchange, order.folder
        self.seeds, self.dataset = order.ensemble.seeds, order.data.train
        self.task = task_of(order.spec.loss, order.ensemble.task)

    def run(self) -> None:
        """Train from where the run stands to its end, or until a signal stops it."""
        epochs = self.spec.epochs
        if (device := self.order.numerics.device).type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        last = self.order.execution.stop_after or epochs
        every = self.order.execution.checkpoint_every
        for epoch in range(len(self.history), last):
            if self.ended:
                break
            with self.clock.during("other"):
                self._run_epoch(epoch)
                due = (epoch + 1) % every == 0 or epoch + 1 == last
                if due or self.ended:
                    self._save()
        # Members that have yet to begin are what they would have begun as.
        for epoch in range(len(self.history), epochs):
            self._go_on_from_others(epoch)

    def _run_epoch(self, epoch: int) -> None:
        for member in self._go_on_from_others(epoch):
            member.best = Best()  # what another one's run was at best counts no more
        self._prune_before(epoch)
        self._exchange_before(epoch)
        for member in self.members:
            member.phase = member.method.phase(epoch, self.spec.epochs)
        with self.clock.during("stepping"):
            self.runner.run_epoch(self._active(epoch), epoch)
            self._check_finite(epoch)  # waits for the steps
        if self.exchange.agreed(self.interruption.requested):
            self._save()
            self.interruption.leave()
        record = self._record(epoch)
        self.stopped_by = self._stopping(self._told(record))

    @property
    def ended(self) -> bool:
        """Whether all epochs are done, or nobody wants the rest."""
        return self.stopped_by is not None or len(self.history) == self.spec.epochs

    def restore(self) -> None:
        """Take up the last checkpoint of the run folder, if there is one."""
        for member in self.members:
            self._divide(member)
        own = None if self.folder is None else self.folder.load_checkpoint()
        if own is not None:
            self._go_on_from(own, branches=False)
            self.generation = own.generation
        elif self.order.origin is not None:
            self._go_on_from(self.order.origin, branches=True)
            self._save()
        if self.folder is not None and self.exchange.writer:
            self.folder.write_history(self.history)

    def _go_on_from(self, saved: Checkpoint, *, branches: bool) -> None:
        saved.restore_frozen([*self.order.ensemble.members])
        for member in self.members:
            with reading(saved.path, f"the state of member {member.index}"):
                restore(member, *saved.member(member.index), branches=branches)
            if member.step:
                member.set_time(*self.runner.plan.time(member.step - 1))
            self._divide(member)
        self.history = [*saved.history]
        self.stopped_by = self._stopping(None if branches else saved.stopped_by)
        self.clock.go_on_from(saved.timeline)

    def finish(self, member: TrainingMember) -> None:
        """Put in place what a member predicts with once the run has ended."""
        with member.on_device():
            if member.best.weights:
                where = f"best weights of member {member.index}"
                member.load_trained(member.best.weights, where)
            elif member.average:
                tensors = averaged_tensors(member.module)
                foreach.copy_(tensors, means_of(member.average))
            member.whole(self.order.ensemble.members[member.index])
            member.method.finish(member, self.dataset)
            member.check_state()
            apply_masks(member.module)

    def steps_done(self) -> int:
        """Return the steps that all members of this process have done by themselves."""
        plan = self.runner.plan
        firsts = [each.first * plan.steps for each in plan.course.stretches]
        return sum(max(0, m.step - firsts[m.index]) for m in self.members)

    def _active(self, epoch: int) -> Sequence[TrainingMember]:
        """Return the members of this process that train in an epoch."""
        active = self.runner.plan.course.active(epoch)
        return [member for member in self.members if member.index in active]

    def _go_on_from_others(self, epoch: int) -> list[TrainingMember]:
        """Let members that begin with an epoch take over the states of others.

        Args:
            epoch: The epoch.

        Returns:
            Those of this process that did; none if they had begun before.
        """
        course, first = self.runner.plan.course, epoch * self.runner.plan.steps
        following = course.following(epoch)
        begin = [m for m in self.members if m.index in following and m.step < first]
        if not following or not self.exchange.agreed(bool(begin)):
            return []
        origin = course.stretches[following[0]].origin
        own = [
            (tensors_of(m), document_of(m)) for m in self.members if m.index == origin
        ]
        tensors, document = next(filter(None, self.exchange.everywhere(own)))[0]
        for member in begin:
            copies = {name: tensor.clone() for name, tensor in tensors.items()}
            restore(member, copies, document)
            self._divide(member)
        return begin

    def _prune_before(self, epoch: int) -> None:
        prune = self.spec.prune
        if prune is None or epoch != prune.epoch(self.spec.epochs):
            return
        for member in self.members:
            of_member = for_member(prune, member.index, len(self.seeds))
            assert not isinstance(of_member.sparsity, tuple)
            if member.step == epoch * self.runner.plan.steps:
                member.prune(of_member.sparsity)

    def _exchange_before(self, epoch: int) -> None:
        """Let members tell each other something, if their method says so."""
        method = for_member(self.spec.method, 0, len(self.seeds))
        if not isinstance(method, ExchangingMethod):
            return
        if method.exchanges_before(epoch, self.spec.epochs):
            due = any(member.exchanged < epoch for member in self.members)
            if self.exchange.agreed(due):
                with self.clock.during("exchanging"):
                    self._exchange(epoch)

    def _exchange(self, epoch: int) -> None:
        with self.clock.during("scoring"):
            body, seen = self.order.ensemble.extractor, self.dataset
            if body is not None and self.members:
                seen = features_of(body, seen, workers=self.order.execution.workers)
            published = {m.index: self._publish(m, seen, epoch) for m in self.members}
        gathered = self.exchange.collect(published)
        for member in self.members:
            assert isinstance(member.method, ExchangingMethod)
            stream = generator(*self.seeds, "exchange", epoch)
            place = published[member.index].device
            received = [tensor.to(place) for tensor in gathered]
            with member.on_device():
                member.method.receive(member, member.index, received, stream)
                member.check_state()
            member.exchanged = epoch
            self._divide(member)

    @property
    def _exchange_seconds(self) -> float:
        """How long the exchange before the epoch took: what no record has."""
        recorded = sum(record.exchange_seconds for record in self.history)
        return self.clock.seconds("scoring", "exchanging") - recorded

    def _publish(
        self, member: TrainingMember, seen: Dataset[Any], epoch: int
    ) -> Tensor:
        assert isinstance(member.method, ExchangingMethod)
        key = (member.seed, "publish", epoch)
        member.noise_seed = derive(*key)
        with member.on_device(), evaluating(member.module), seeded(*key):
            stream = generator(*key)
            return member.method.publish(member, member.index, seen, stream)

    def _divide(self, member: TrainingMember) -> None:
        """Divide the member's batches as its method asks."""
        if isinstance(member.method, ExchangingMethod):
            mask = member.method.divides_by(member)
            size = self.spec.batch_size
            ranks = 1 if member.ranks is None else member.ranks.size
            member.split = None if mask is None else BatchSplit.of(mask, size, ranks)

    def _record(self, epoch: int) -> EpochRecord:
        """Note what is known of an epoch, the same in every process."""
        rows = self.exchange.collect(self._rows(epoch))
        self._check_validated(rows, epoch)
        # Those that have yet to begin are the one from which they go on.
        rows += rows[-1:] * (len(self.seeds) - len(rows))
        steps = self.runner.plan.steps * len(self.runner.plan.course.active(epoch))
        samples = steps * min(self.spec.batch_size, length(self.dataset))
        # Those that no record has, which is more than went by since a stop within it.
        seconds = self.clock.seconds("stepping") - sum(r.seconds for r in self.history)
        joint = [row.joint_loss for row in rows]
        memory = [row.peak_memory for row in rows if row.peak_memory is not None]
        scores: dict[str, Any] = {"validation_loss": ()}
        for name in rows[0].validation:
            scores[name] = tuple(row.validation[name] for row in rows)
        record = EpochRecord(
            epoch=epoch,
            loss=tuple(row.loss for row in rows),
            joint_loss=joint[0],
            learning_rate=tuple(row.learning_rate for row in rows),
            **scores,
            seconds=seconds,
            samples_per_second=samples / seconds,
            exchange_seconds=self._exchange_seconds,
            peak_memory=max(memory, default=None),
        )
        self.history.append(record)
        return record

    def _told(self, record: EpochRecord) -> str | None:
        """Let the folder, people and callbacks know; return which of these stops."""
        stops = None
        if self.exchange.writer:
            if self.folder is not None:
                self.folder.write_history(self.history)
            self.progress.epoch_ended(record)
            stops = self.order.callbacks.epoch(record)
        return self.exchange.told(stops)

    def _stopping(self, by_callback: str | None) -> str | None:
        """Return who ends the run with the last record, before its last epoch."""
        if len(self.history) == self.spec.epochs:
            return None
        rule = self.spec.early_stopping
        stops = rule is not None and rule.stops(self.history)
        return type(rule).__name__ if stops else by_callback

    def _rows(self, epoch: int) -> dict[int, MemberRow]:
        """Return what the record of an epoch says of this process's members."""
        begun = self.runner.plan.course.begun(epoch)
        here = [member for member in self.members if member.index < begun]
        active, found = self._active(epoch), {}
        if self.validation is not None:
            with self.clock.during("validating"):
                found = {m.index: self._last(m) for m in here if m not in active}
                # Heads at once, since the body runs once for all of them.
                heads = self.runner.plan.body is not None
                for group in [active] if heads and active else [[m] for m in active]:
                    found |= self._validate(group, epoch)
        memory = None
        if (device := self.order.numerics.device).type == "cuda":
            memory = torch.cuda.max_memory_allocated(device)
        return {
            member.index: MemberRow(
                _mean_loss(member),
                None if (joint := member.joint_losses) is None else float(joint.mean()),
                float(member.learning_rate),
                found.get(member.index, {}),
                memory,
            )
            for member in here
        }

    def _last(self, member: TrainingMember) -> dict[str, float]:
        """Return what a member that trains no more had at its end."""
        named = vars(self.history[-1]).items()
        scores = {n: v for n, v in named if v and n.startswith("validation_")}
        return {name: values[member.index] for name, values in scores.items()}

    def _validate(
        self, members: Sequence[TrainingMember], epoch: int
    ) -> dict[int, dict[str, float]]:
        """Validate what the members would predict with, and keep the best of it."""
        assert self.validation is not None
        body, batches = self.runner.plan.body, self.validation()
        if body is not None:
            batches = map(body.features, batches)
        units = getattr(whole(self.dataset), "units", None)
        unit = 1.0 if units is None else units.std[0]
        with ExitStack() as stack:
            for member in members:
                stack.enter_context(member.on_device())
                stack.enter_context(at_average(member.module, member.average))
            scores = validated(members, batches, self.task, unit)
            for member, found in zip(members, scores, strict=True):
                loss = found["validation_loss"]
                if self.spec.keep == "best" and math.isfinite(loss):
                    member.keep_best(loss, epoch)
        return {m.index: found for m, found in zip(members, scores, strict=True)}

    def _check_validated(self, rows: Sequence[MemberRow], epoch: int) -> None:
        for index, row in enumerate(rows):
            loss = row.validation.get("validation_loss", 0.0)
            if not math.isfinite(loss):
                said = f"validation loss of member {index} must stay finite, got {loss}"
                raise self._diverged(f"{said} after epoch {epoch}")

    def _check_finite(self, epoch: int) -> None:
        """Raise in every process if a member of any diverged."""
        first = epoch * self.runner.plan.steps
        found = {member.index: member.divergence(first) for member in self.members}
        for said in filter(None, self.exchange.collect(found)):
            raise self._diverged(said)

    def _diverged(self, said: str) -> TrainingDiverged:
        kept = self.folder is not None and self.folder.checkpoint.exists()
        where = self.folder.checkpoint if self.folder and kept else "none was kept"
        return TrainingDiverged(f"{said}; last good checkpoint: {where}")

    def _save(self) -> None:
        if self.folder is not None:
            with self.clock.during("saving"):
                self._write_checkpoint(self.folder)

    def _write_checkpoint(self, folder: RunFolder) -> None:
        self.generation += 1
        if self.exchange.writer and self.generation == 1:
            write_frozen(folder.checkpoint, [*self.order.ensemble.members])
        # Hashing and writing leave the interpreter to other threads.
        with ThreadPoolExecutor(WRITERS) as pool:
            own = [m for m in self.members if m.ranks is None or m.ranks.rank == 0]
            for _ in pool.map(partial(self._write_member, folder), own):
                pass
        self.exchange.wait()
        if self.exchange.writer:
            timeline = self.clock.timeline
            done = self.history, timeline, self.stopped_by
            folder.check_there()
            commit(folder.checkpoint, self.generation, len(self.seeds), *done)
        self.exchange.wait()  # before anybody writes the next one

    def _write_member(self, folder: RunFolder, member: TrainingMember) -> None:
        tensors, document = tensors_of(member), document_of(member)
        folder.check_there()
        write_member(
            folder.checkpoint, member.index, self.generation, tensors, document
        )


def _mean_loss(member: TrainingMember) -> float | None:
    """Return a member's mean loss over the epoch, None if it sat out all of it."""
    losses = member.step_losses
    if member.joint_losses is not None:
        losses = losses[~losses.isnan()]
    return float(losses.mean()) if len(losses) else None
