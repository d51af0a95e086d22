"""The course of a run: epochs, exchanges, validation, records and checkpoints."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.data import Dataset

from tepui.core.per_member import for_member
from tepui.core.seeding import derive, generator, seeded
from tepui.data.arrays import Batch
from tepui.data.loading import length
from tepui.methods.base import ExchangingMethod, MemberMethod
from tepui.methods.member import BatchSplit
from tepui.modules.pruning import Prune, apply_masks
from tepui.modules.running import evaluating
from tepui.modules.state import load_tensor_state
from tepui.training.exchange import Exchange
from tepui.training.interrupt import Interruption
from tepui.training.learner import Learner, TrainingDiverged
from tepui.training.progress import Progress
from tepui.training.run_folder import EpochRecord, RunFolder
from tepui.training.runner import Runner


@dataclass(eq=False)
class Training:
    """A run in progress.

    Attributes:
        learners: The members that this process trains.
        seeds: The seeds of all members of the ensemble.
        runner: Runs the steps of an epoch.
        dataset: The training data, for methods that look at all of it.
        validation: Returns the batches to validate on, if there are any.
        prune: When and how far members are pruned, if they are.
        keeps_best: Whether each member's best weights are kept.
        exchange: How members tell each other what they published.
        folder: Where the run is recorded, if anywhere.
        checkpoint_every: Epochs between checkpoints.
        callbacks: Called with the record of every epoch.
        progress: Shows the run to a person.
        interruption: Whether a signal asked to stop.
        history: Records of the epochs done.
        generation: How many checkpoints the run has written.
    """

    learners: Sequence[Learner]
    seeds: Sequence[int]
    runner: Runner
    dataset: Dataset[Any]
    validation: Callable[[], Iterator[Batch]] | None
    prune: Prune | None
    keeps_best: bool
    exchange: Exchange
    folder: RunFolder | None
    checkpoint_every: int
    callbacks: Sequence[Callable[[EpochRecord], None]]
    progress: Progress
    interruption: Interruption
    history: list[EpochRecord] = field(default_factory=list)
    generation: int = 0

    def run(self) -> None:
        """Train from where the run stands to its end, or until a signal stops it."""
        epochs = self.runner.plan.epochs
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        for epoch in range(len(self.history), epochs):
            self._prune_before(epoch)
            exchanging = self._exchange_before(epoch)
            started, before = time.perf_counter(), self.steps_done()
            self.runner.run_epoch(self.learners, epoch)
            self._check_finite(epoch)
            if self.interruption.requested:
                self._save()
                self.interruption.leave()
            seconds = time.perf_counter() - started
            steps = self.steps_done() - before
            self._record(epoch, seconds, steps, exchanging=exchanging)
            if (epoch + 1) % self.checkpoint_every == 0 or epoch + 1 == epochs:
                self._save()

    @property
    def device(self) -> torch.device:
        """Where members are trained."""
        return self.learners[0].losses.device

    def restore(self) -> None:
        """Take up the last checkpoint of the run folder, if there is one."""
        if self.folder is None:
            return
        saved = self.folder.load_checkpoint()
        if saved is None:
            self.folder.write_history([])
            return
        for learner in self.learners:
            learner.restore(*saved.member(learner.index))
            if learner.step:
                learner.set_time(*self.runner.plan.time(learner.step - 1))
            self._divide(learner)
        self.history, self.generation = [*saved.history], saved.generation
        self.folder.write_history(self.history)

    def finish(self, learner: Learner) -> None:
        """Put in place what a member predicts with once the run has ended."""
        with learner.present():
            if learner.best.weights:
                where = f"best weights of member {learner.index}"
                load_tensor_state(learner.member.module, learner.best.weights, where)
            elif isinstance(learner.method, MemberMethod):
                learner.method.finish(learner.member, self.dataset)
            apply_masks(learner.member.module)

    def steps_done(self) -> int:
        """Return the steps that all members of this process have done."""
        return sum(learner.step for learner in self.learners)

    def _prune_before(self, epoch: int) -> None:
        plan = self.runner.plan
        if self.prune is None or epoch != int(self.prune.prune_at * plan.epochs):
            return
        for learner in self.learners:
            own = for_member(self.prune, learner.index, len(self.seeds))
            assert not isinstance(own.sparsity, tuple)
            if learner.step == epoch * plan.steps:
                learner.prune(own.sparsity)

    def _exchange_before(self, epoch: int) -> float:
        """Let members tell each other something; return how many seconds it took."""
        method = self.learners[0].method
        epochs = self.runner.plan.epochs
        if (
            not isinstance(method, ExchangingMethod)
            or self.learners[0].exchanged >= epoch
            or not method.exchanges_before(epoch, epochs)
        ):
            return 0.0
        began = time.perf_counter()
        published = {}
        for learner in self.learners:
            assert isinstance(learner.method, ExchangingMethod)
            key = (learner.seed, "publish", epoch)
            learner.member.noise_seed = derive(*key)
            with (
                learner.present(),
                evaluating(learner.member.module),
                seeded(*key),
            ):
                published[learner.index] = learner.method.publish(
                    learner.member, learner.index, self.dataset, generator(*key)
                )
        gathered = self.exchange.gather(published, len(self.seeds))
        for learner in self.learners:
            assert isinstance(learner.method, ExchangingMethod)
            stream = generator(*self.seeds, "exchange", epoch)
            learner.method.receive(learner.member, learner.index, gathered, stream)
            learner.exchanged = epoch
            self._divide(learner)
        return time.perf_counter() - began

    def _divide(self, learner: Learner) -> None:
        """Divide the member's batches as its method asks."""
        if isinstance(learner.method, ExchangingMethod):
            mask = learner.method.strata(learner.member)
            size = self.runner.plan.batch_size
            learner.member.strata = None if mask is None else BatchSplit.of(mask, size)

    def _record(
        self, epoch: int, seconds: float, steps: int, *, exchanging: float
    ) -> None:
        losses = tuple(float(learner.losses.mean()) for learner in self.learners)
        validated = tuple(self._validate(learner, epoch) for learner in self.learners)
        rates = tuple(float(learner.member.learning_rate) for learner in self.learners)
        samples = steps * min(self.runner.plan.batch_size, length(self.dataset))
        record = EpochRecord(
            epoch=epoch,
            loss=losses,
            learning_rate=rates,
            validation_loss=() if self.validation is None else validated,
            seconds=seconds,
            samples_per_second=samples / seconds,
            exchange_seconds=exchanging,
            peak_memory=(
                torch.cuda.max_memory_allocated(self.device)
                if self.device.type == "cuda"
                else None
            ),
        )
        self.history.append(record)
        if self.folder is not None:
            self.folder.append_history(record)
        self.progress.epoch_ended(record)
        for callback in self.callbacks:
            callback(record)

    def _validate(self, learner: Learner, epoch: int) -> float:
        if self.validation is None:
            return float("nan")
        member, samples = learner.member, 0
        total = torch.zeros((), dtype=torch.float64, device=learner.losses.device)
        with learner.present(), evaluating(member.module), torch.no_grad():
            for batch in self.validation():
                total += member.losses(batch).double().sum()
                samples += len(batch.targets)
        loss = float(total) / samples
        if not math.isfinite(loss):
            raise TrainingDiverged(
                f"validation loss of member {learner.index} must stay finite, got "
                f"{loss} after epoch {epoch} with learning rate "
                f"{float(member.learning_rate):g}; {self._last_good()}"
            )
        if self.keeps_best:
            learner.keep_best(loss, epoch)
        return loss

    def _check_finite(self, epoch: int) -> None:
        plan = self.runner.plan
        for learner in self.learners:
            learner.check_finite(epoch * plan.steps, plan.factor, self._last_good())

    def _last_good(self) -> str:
        if self.folder is None:
            return "no checkpoint was kept (pass out=...)"
        where = self.folder.checkpoint
        return f"last good checkpoint: {where if where.exists() else 'none yet'}"

    def _save(self) -> None:
        if self.folder is None:
            return
        self.generation += 1
        for learner in self.learners:
            self.folder.write_member(
                learner.index, self.generation, learner.tensors(), learner.document()
            )
        self.folder.commit(self.generation, len(self.seeds), self.history)
