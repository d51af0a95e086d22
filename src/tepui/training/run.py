"""A training run as a value: a record of every epoch, and what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tepui.core.counted import counted
from tepui.core.notebooks import ShownInNotebooks
from tepui.ensembles.ensemble import Ensemble
from tepui.training.run_end import RunEnd
from tepui.training.timeline import Span


@dataclass(frozen=True)
class EpochRecord:
    """What is known of an epoch when it ends; tuples have one entry per member.

    A member that has yet to begin has the figures of the one it will go on from, one
    that has ended its last ones.

    Attributes:
        epoch: Which epoch, from 0.
        loss: Mean training loss; None for a coupled member that sat out the epoch.
        learning_rate: Learning rate of the last step.
        validation_loss: Mean validation loss, empty without validation data.
        validation_accuracy: Share of the validation data's classes or labels told
            right; empty where outputs are something else, and in records of old runs.
        validation_rmse: Root mean squared error on the validation data, where outputs
            are numbers.
        seconds: How long its steps took, all members together. Compiling and capturing
            them, validation and checkpoints are in the run's timeline.
        samples_per_second: Training samples of all members per second of steps.
        exchange_seconds: How long members took before the epoch to tell each other
            something, such as SharpBalance's scores; not part of ``seconds``. None in
            records of old runs.
        peak_memory: Most bytes allocated on a GPU since the run began or was resumed;
            None elsewhere.
        joint_loss: Mean of the loss that coupled members descended together; None where
            members train independently.
    """

    epoch: int
    loss: tuple[float | None, ...]
    learning_rate: tuple[float, ...]
    validation_loss: tuple[float, ...]
    seconds: float
    samples_per_second: float
    exchange_seconds: float | None = None
    peak_memory: int | None = None
    joint_loss: float | None = None
    validation_accuracy: tuple[float, ...] = ()
    validation_rmse: tuple[float, ...] = ()

    @property
    def trained(self) -> tuple[float, ...]:
        """The losses of the members that took part in the epoch."""
        return tuple(loss for loss in self.loss if loss is not None)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Rebuild a record from its JSON form."""
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in row.items()
        }
        return cls(**fields)


@dataclass(frozen=True, eq=False)
class Run(ShownInNotebooks):
    """A finished training run.

    Attributes:
        ensemble: The trained ensemble.
        history: One record per epoch.
        best_epochs: Epoch of each member's best weights, empty if none were kept.
        summary: What the method reports of the run, such as SharpBalance's sets.
        path: The run folder, if there is one.
        timeline: Where the time went, also before the run was resumed or branched; but
            not what passed between a kill and the checkpoint before it.
        stopped_by: Who ended the run before all epochs were done, ``"EarlyStopping"``
            or a callback's name; None if nobody did.
    """

    ensemble: Ensemble
    history: tuple[EpochRecord, ...]
    best_epochs: tuple[int, ...]
    summary: Mapping[str, Any]
    path: Path | None
    timeline: tuple[Span, ...] = ()
    stopped_by: str | None = None

    @property
    def end(self) -> RunEnd:
        """How it ended: after how many epochs, by whom, and with which weights."""
        return RunEnd.of(len(self.history), self.stopped_by, self.best_epochs)

    def kept_losses(self) -> tuple[float | None, ...]:
        """Return each member's training loss in the epoch whose weights it kept."""
        return tuple(
            self.history[epochs - 1].loss[place]
            for place, epochs in enumerate(self.end.kept)
        )

    def __str__(self) -> str:
        task = self.ensemble.task
        title = (
            f"{counted(len(self.ensemble), 'member')} trained for "
            f"{counted(len(self.history), 'epoch')}"
            + ("" if self.stopped_by is None else f", stopped by {self.stopped_by}")
            + ("" if task is None else f" ({task})")
        )
        lines = (f"  {name:15}  {fact}" for name, fact in self.facts().items())
        return "\n".join([title, *lines])

    def facts(self) -> dict[str, str]:
        """Return what a person wants to know first, a line of text by its name."""
        facts: dict[str, str] = {}
        if self.history:
            last = self.history[-1]
            for name, values in {
                "training loss": last.loss,
                "validation loss": last.validation_loss,
                "its accuracy": last.validation_accuracy,
                "its RMSE": last.validation_rmse,
            }.items():
                if values:
                    facts[name] = _per_member(values)
            if self.end.kept:
                epochs = " ".join(map(str, self.end.kept))
                facts["weights kept"] = f"after epochs {epochs}"
            seconds = sum(record.seconds for record in self.history)
            facts["time in steps"] = f"{seconds:.4g} s"
        if self.path is not None:
            facts["folder"] = str(self.path)
        return facts


def _per_member(losses: Sequence[float | None]) -> str:
    """Return the members' losses as text; a dash for one that sat out."""
    return " ".join("-" if loss is None else f"{loss:.4g}" for loss in losses)
