"""The folder of a training run: what was asked, what happened, where it stands."""

import errno
import json
import reprlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from tepui.core.agreement import apart
from tepui.core.lease import LEASE, Lease, leased
from tepui.core.notebooks import ShownInNotebooks
from tepui.core.precision import Precision
from tepui.core.replacing import is_unfinished, write_bytes, writing
from tepui.core.storage import (
    read_document,
    read_lines,
    read_tensors,
    reading,
    sealed_line,
    tensors_digest,
    write_document,
    write_tensors,
)
from tepui.ensembles.ensemble import FILE, Ensemble
from tepui.ensembles.loading import RUN
from tepui.training.described import environment_of
from tepui.training.timeline import Span

# How values are shown in messages: not longer than one can read.
SHOWN = reprlib.Repr()
SHOWN.maxlist = SHOWN.maxdict = 6
SHOWN.maxstring = 70


@dataclass(frozen=True)
class EpochRecord:
    """What is known of an epoch when it ends; tuples have one entry per member.

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

    def __str__(self) -> str:
        task = self.ensemble.task
        title = (
            f"{len(self.ensemble)} members trained for {len(self.history)} epochs"
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
            seconds = sum(record.seconds for record in self.history)
            facts["time in steps"] = f"{seconds:.4g} s"
        if self.path is not None:
            facts["folder"] = str(self.path)
        return facts


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands: a document, and a file of tensors for every member."""

    path: Path
    generation: int  # which checkpoint of the run it is, from 1
    history: tuple[EpochRecord, ...]
    digests: tuple[str, ...]  # of the members' files, in member order
    timeline: tuple[Span, ...]  # where the time went until then; not in old files
    stopped_by: str | None = None  # who ended the run with it, if anybody

    def described(self) -> dict[str, Any]:
        """Return which checkpoint it is, for a run that goes on from it."""
        epochs, folder = len(self.history), str(self.path.parent)
        return {"folder": folder, "epochs": epochs, "members": list(self.digests)}

    def member(self, index: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors of a member, and what else a resumed run needs of it."""
        return read_tensors(self.file(index), "member")

    def file(self, index: int) -> Path:
        """Return the file of a member, which must be the one that is meant."""
        file = member_file(self.path, index, self.generation)
        if not file.is_file():
            raise FileNotFoundError(f"no file {file}, which {self.path} names")
        if tensors_digest(file) != self.digests[index]:
            raise ValueError(
                f"{file} must be the file that {self.path} names for member {index}, "
                "but its digest is another"
            )
        return file


def member_file(checkpoint: Path, index: int, generation: int) -> Path:
    """Return where a member's part of a checkpoint lies."""
    return checkpoint.with_suffix("") / f"member{index}-{generation}.safetensors"


class RunFolder:
    """A run folder on disk."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.description = self.path / RUN
        self.metrics = self.path / "metrics.jsonl"
        self.checkpoint = self.path / "checkpoint.json"
        self.result = self.path / "outcome.json"
        self.ensemble = self.path / FILE
        self._lease: Lease | None = None  # while a run is trained in it

    @property
    def started(self) -> bool:
        """Whether a run was begun here."""
        return self.description.exists()

    @property
    def finished(self) -> bool:
        """Whether a run ended here."""
        return self.ensemble.exists() and self.result.exists()

    @property
    def epochs_done(self) -> int:
        """How many epochs were recorded; another process may be writing them."""
        return self.metrics.read_bytes().count(b"\n") if self.metrics.exists() else 0

    def check(self, config: dict[str, Any], *, resume: bool) -> None:
        """Check that a run may begin here, or that the one begun here is the same."""
        config = json.loads(json.dumps(config))
        if not self.started:
            files = self.path.iterdir() if self.path.exists() else ()
            # A kill before the run was written down may leave a temporary file.
            if not all(file.name == LEASE or is_unfinished(file) for file in files):
                raise FileExistsError(
                    f"out must be a new or empty folder, got {self.path}"
                )
            return
        if not resume:
            raise FileExistsError(
                f"{self.path} holds a run; pass resume=True (--resume) to continue it, "
                "or choose another folder"
            )
        begun = self.recorded()["config"]
        names = sorted(begun.keys() | config.keys())
        other = [name for name in names if begun.get(name) != config.get(name)]
        if other:
            name, *more = other
            then, now = map(SHOWN.repr, apart(begun.get(name), config.get(name)))
            raise ValueError(
                f"{name} must be what the run in {self.path} was started with ({then}) "
                f"to resume it, got {now}"
                + (f"; so must {', '.join(more)}" if more else "")
            )

    @contextmanager
    def claimed(self, config: dict[str, Any], *, resume: bool) -> Iterator[None]:
        """Keep other processes out of the folder, from its first file to its last.

        Raises:
            LeaseHeldError: If one that lives is training in it.
        """
        with leased(self.path / LEASE, wait=False) as lease:
            self.check(config, resume=resume)  # another may have begun meanwhile
            self._lease = lease
            try:
                yield
                self.check_there()
            finally:
                self._lease = None

    def check_there(self) -> None:
        """Raise if the folder was removed or taken over since the run began in it."""
        if self._lease is not None:
            self._lease.check()
        if not self.started:
            raise FileNotFoundError(
                f"{self.path} was removed or emptied while its run was training; start "
                "again in a new folder"
            )

    def check_space(self, members: Sequence[int]) -> None:
        """Raise unless checkpoints find room beside each other, given their bytes."""
        kept = self.checkpoint.exists()  # a new one is written beside the old one
        needed = sum(members) * (1 if kept else 2)
        free = shutil.disk_usage(self.path).free
        if needed > free:
            error = OSError(
                f"{self.path} needs {needed / 1e6:,.1f} MB for checkpoints, each "
                f"written beside the one before it, but its disk has {free / 1e6:,.1f} "
                "MB left; free some, or choose another folder"
            )
            error.errno = errno.ENOSPC
            raise error

    def begin(
        self,
        config: dict[str, Any],
        first_weights: Sequence[float],
        origin: "Checkpoint | None",
    ) -> None:
        """Write down what was asked for, unless the run began before."""
        if not self.started:
            document = {
                "config": config,
                "environment": environment_of(torch.device(config["device"])),
                "first_weights": list(first_weights),
                "branched_from": None if origin is None else origin.described(),
            }
            write_document(self.description, "run", document)

    def threads(self) -> int | None:
        """Return the number of threads the run began with."""
        if not self.started:
            return None
        with reading(self.description, "a number of threads"):
            return int(self.recorded()["config"]["threads"])

    def exam_precision(self) -> Precision:
        """Return what its ensemble is examined in: TF32, unless trained in float32."""
        trained = self.recorded()["config"]["precision"] if self.started else None
        return "float32" if trained == "float32" else "tf32"

    def recorded(self) -> dict[str, Any]:
        """Return what was asked for (``config``) and where (``environment``)."""
        recorded = read_document(self.description, "run")
        with reading(self.description, "what a run was asked for"):
            for part in ("config", "environment"):
                dict(recorded[part])
        return recorded

    def history(self) -> tuple[EpochRecord, ...]:
        """Return the records of all epochs so far, none if there is no file."""
        if not self.metrics.exists():
            return ()
        with reading(self.metrics, "records of epochs"):
            return tuple(map(EpochRecord.of, read_lines(self.metrics, "epoch")))

    def write_history(self, history: Sequence[EpochRecord]) -> None:
        """Write all records of the run so far, one JSON object per line."""
        self.check_there()
        write_bytes(self.metrics, "".join(map(_line, history)).encode())

    def append_history(self, record: EpochRecord) -> None:
        """Append the record of the epoch just ended."""
        self.check_there()
        with writing(self.metrics), self.metrics.open("a") as file:
            file.write(_line(record))

    def write_member(
        self,
        index: int,
        generation: int,
        tensors: Mapping[str, Tensor],
        document: Mapping[str, Any],
    ) -> None:
        """Write a member's part of a checkpoint, which counts once it is committed."""
        self.check_there()
        file = member_file(self.checkpoint, index, generation)
        write_tensors(file, "member", tensors, document)

    def commit(
        self,
        generation: int,
        members: int,
        history: Sequence[EpochRecord],
        timeline: Sequence[Span],
        stopped_by: str | None = None,
    ) -> None:
        """Make the files of a generation the run's checkpoint; remove all others."""
        self.check_there()
        files = [member_file(self.checkpoint, n, generation) for n in range(members)]
        document = {
            "generation": generation,
            "members": [tensors_digest(file) for file in files],
            "history": [asdict(record) for record in history],
            "timeline": [asdict(span) for span in timeline],
            **_stop(stopped_by),
        }
        write_document(self.checkpoint, "checkpoint", document)
        for file in self.checkpoint.with_suffix("").iterdir():
            if file not in files:
                file.unlink(missing_ok=True)

    def write_outcome(
        self,
        best_epochs: Sequence[int],
        summary: Mapping[str, Any],
        timeline: Sequence[Span],
        stopped_by: str | None = None,
    ) -> None:
        """Write what came of the run beside its ensemble."""
        self.check_there()
        document = {
            "best_epochs": list(best_epochs),
            "summary": summary,
            "timeline": [asdict(span) for span in timeline],
            **_stop(stopped_by),
        }
        write_document(self.result, "outcome", document)

    def outcome(self) -> tuple[tuple[int, ...], dict[str, Any]]:
        """Return the epochs of the best weights and the method's summary."""
        document = read_document(self.result, "outcome")
        with reading(self.result, "the outcome of a run"):
            return tuple(document["best_epochs"]), dict(document["summary"])

    def timeline(self) -> tuple[Span, ...]:
        """Return where the time went until the last checkpoint, or in all."""
        for file, kind in ((self.result, "outcome"), (self.checkpoint, "checkpoint")):
            if file.exists():
                document = read_document(file, kind)
                with reading(file, "where the time went"):
                    return _timeline(document)
        return ()

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the last checkpoint, None if the run has not written one yet."""
        if not self.checkpoint.exists():
            return None
        document = read_document(self.checkpoint, "checkpoint")
        with reading(self.checkpoint, "a checkpoint"):
            return Checkpoint(
                self.checkpoint,
                document["generation"],
                tuple(map(EpochRecord.of, document["history"])),
                tuple(document["members"]),
                _timeline(document),
                document.get("stopped_by"),
            )


def _per_member(losses: Sequence[float | None]) -> str:
    """Return the members' losses as text; a dash for one that sat out."""
    return " ".join("-" if loss is None else f"{loss:.4g}" for loss in losses)


def _timeline(document: Mapping[str, Any]) -> tuple[Span, ...]:
    return tuple(map(Span.of, document.get("timeline", ())))


def _stop(stopped_by: str | None) -> dict[str, str]:
    """Return what a document says of a run that was ended early; nothing of others."""
    return {} if stopped_by is None else {"stopped_by": stopped_by}


def _line(record: EpochRecord) -> str:
    return sealed_line("epoch", asdict(record))
