"""What happened in a run: a record of every epoch, and what came of them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

from tepui.training.timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
            right; empty where outputs are something else.
        validation_rmse: Root mean squared error on the validation data, where outputs
            are numbers.
        seconds: How long its steps took, all members together. Compiling and capturing
            them, validation and checkpoints are in the run's timeline.
        samples_per_second: Training samples of all members per second of steps.
        exchange_seconds: How long members took before the epoch to tell each other
            something, such as SharpBalance's scores; not part of ``seconds``.
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
    exchange_seconds: float = 0.0
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


class History(tuple[EpochRecord, ...]):
    """The records of all epochs, in their order."""

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for every epoch and member, as ``pandas.DataFrame`` takes them.

        Example:
            >>> records = [EpochRecord(0, (0.5, 0.4), (0.1, 0.1), (), 1.0, 64.0)]
            >>> History(records).rows()[1]["member"], History(records).rows()[1]["loss"]
            (1, 0.4)
        """
        return [
            {
                name: value[member] if isinstance(value, tuple) else value
                for name, value in {"member": member, **asdict(record)}.items()
                if value != ()
            }
            for record in self
            for member in range(len(record.loss))
        ]

    def plot(self) -> "Figure":
        """Return a figure of every member's losses over the epochs."""
        from matplotlib.figure import Figure

        figure = Figure(layout="constrained")
        axes = figure.subplots()
        rows = self.rows()
        for member in dict.fromkeys(row["member"] for row in rows):
            own = [row for row in rows if row["member"] == member]
            for name, style in (("loss", "-"), ("validation_loss", "--")):
                seen = [(r["epoch"], r[name]) for r in own if r.get(name) is not None]
                if seen:
                    label = f"{name.replace('_', ' ')} {member}"
                    axes.plot(*zip(*seen, strict=True), style, label=label)
        axes.set(xlabel="epoch", ylabel="loss")
        axes.legend()
        return figure


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Attributes:
        history: One record per epoch.
        best_epochs: Epoch of each member's best weights, empty if none were kept.
        summary: What the method reports of the run, such as SharpBalance's sets.
        timeline: The seconds of each activity, also before the run was resumed or
            branched; but not what passed between a kill and the checkpoint before it.
        stopped_by: Who ended the run before all epochs were done, ``"EarlyStopping"``
            or a callback's name; None if nobody did.
    """

    history: History = field(default_factory=History)
    best_epochs: tuple[int, ...] = ()
    summary: Mapping[str, Any] = field(default_factory=dict)
    timeline: Timeline = field(default_factory=dict)
    stopped_by: str | None = None

    @property
    def kept(self) -> tuple[int, ...]:
        """After how many epochs each member had the weights that were kept.

        Empty if all members kept their last.
        """
        epochs = len(self.history)
        return tuple(epochs if best < 0 else best + 1 for best in self.best_epochs)
