"""The folder of a training run: what was asked, what happened, where it stands."""

import dataclasses
import functools
import hashlib
import json
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.precision import Precision
from tepui.core.storage import (
    read_document,
    read_tensors,
    replacing,
    seal,
    tensors_digest,
    unseal,
    write_document,
    write_tensors,
)
from tepui.core.version import __version__
from tepui.data.loading import as_arrays, length
from tepui.data.stored import StoredData
from tepui.ensembles.ensemble import FILE, RUN, Ensemble
from tepui.training.timeline import Span

# Metadata of a field that came after runs and studies were stored without it.
NEWER = {"newer": True}


@dataclass(frozen=True)
class EpochRecord:
    """What is known of an epoch when it ends; tuples have one entry per member.

    Attributes:
        epoch: Which epoch, from 0.
        loss: Mean training loss; None for a coupled member that sat out the epoch.
        learning_rate: Learning rate of the last step.
        validation_loss: Mean validation loss, empty without validation data.
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
class Run:
    """A finished training run.

    Attributes:
        ensemble: The trained ensemble.
        history: One record per epoch.
        best_epochs: Epoch of each member's best weights, empty if none were kept.
        summary: What the method reports of the run, such as SharpBalance's sets.
        path: The run folder, if there is one.
        timeline: Where the time went, also before the run was resumed or branched; but
            not what passed between a kill and the checkpoint before it.
    """

    ensemble: Ensemble
    history: tuple[EpochRecord, ...]
    best_epochs: tuple[int, ...]
    summary: Mapping[str, Any]
    path: Path | None
    timeline: tuple[Span, ...] = ()


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands: a document, and a file of tensors for every member."""

    path: Path
    generation: int  # which checkpoint of the run it is, from 1
    history: tuple[EpochRecord, ...]
    digests: tuple[str, ...]  # of the members' files, in member order
    timeline: tuple[Span, ...]  # where the time went until then; not in old files

    def described(self) -> dict[str, Any]:
        """Return which checkpoint it is, for a run that goes on from it."""
        epochs, folder = len(self.history), str(self.path.parent)
        return {"folder": folder, "epochs": epochs, "members": list(self.digests)}

    def member(self, index: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors of a member, and what else a resumed run needs of it."""
        file = member_file(self.path, index, self.generation)
        contents = read_tensors(file, "member")
        if tensors_digest(file) != self.digests[index]:
            raise ValueError(
                f"{file} must be the file that {self.path} names for member {index}, "
                "but its digest is another"
            )
        return contents


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
            if not all(file.match(".run.json.*.tmp") for file in files):
                raise FileExistsError(
                    f"out must be a new or empty folder, got {self.path}"
                )
            return
        if not resume:
            raise FileExistsError(
                f"{self.path} holds a run; pass resume=True (--resume) to continue it, "
                "or choose another folder"
            )
        recorded = self.recorded()["config"]
        for name in sorted(config.keys() | recorded.keys()):
            if config.get(name) != recorded.get(name):
                raise ValueError(
                    f"{name} must be what the run in {self.path} was started with "
                    f"({recorded.get(name)!r}) to resume it, got {config.get(name)!r}"
                )

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
        return int(self.recorded()["config"]["threads"])

    def exam_precision(self) -> Precision:
        """Return what its ensemble is examined in: TF32, unless trained in float32."""
        trained = self.recorded()["config"]["precision"] if self.started else None
        return "float32" if trained == "float32" else "tf32"

    def recorded(self) -> dict[str, Any]:
        """Return what was asked for (``config``) and where (``environment``)."""
        return read_document(self.description, "run")

    def history(self) -> tuple[EpochRecord, ...]:
        """Return the records of all epochs so far, none if there is no file."""
        if not self.metrics.exists():
            return ()
        # Not splitlines, to which other characters end lines too.
        lines = self.metrics.read_text().split("\n")
        if not lines[-1]:
            lines.pop()
        try:
            rows = [
                unseal("epoch", json.loads(line), f"line {number} of {self.metrics}")
                for number, line in enumerate(lines, 1)
            ]
            return tuple(map(EpochRecord.of, rows))
        except (AttributeError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(
                f"{self.metrics} must hold one record per line, but: {error!r}"
            ) from error

    def write_history(self, history: Sequence[EpochRecord]) -> None:
        """Write all records of the run so far, one JSON object per line."""
        with replacing(self.metrics) as temporary:
            temporary.write_text("".join(map(_line, history)))

    def append_history(self, record: EpochRecord) -> None:
        """Append the record of the epoch just ended."""
        with self.metrics.open("a") as file:
            file.write(_line(record))

    def write_member(
        self,
        index: int,
        generation: int,
        tensors: Mapping[str, Tensor],
        document: Mapping[str, Any],
    ) -> None:
        """Write a member's part of a checkpoint, which counts once it is committed."""
        file = member_file(self.checkpoint, index, generation)
        write_tensors(file, "member", tensors, document)

    def commit(
        self,
        generation: int,
        members: int,
        history: Sequence[EpochRecord],
        timeline: Sequence[Span],
    ) -> None:
        """Make the files of a generation the run's checkpoint; remove all others."""
        files = [member_file(self.checkpoint, n, generation) for n in range(members)]
        document = {
            "generation": generation,
            "members": [tensors_digest(file) for file in files],
            "history": [asdict(record) for record in history],
            "timeline": [asdict(span) for span in timeline],
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
    ) -> None:
        """Write what came of the run beside its ensemble."""
        document = {
            "best_epochs": list(best_epochs),
            "summary": summary,
            "timeline": [asdict(span) for span in timeline],
        }
        write_document(self.result, "outcome", document)

    def outcome(self) -> tuple[tuple[int, ...], dict[str, Any]]:
        """Return the epochs of the best weights and the method's summary."""
        document = read_document(self.result, "outcome")
        return tuple(document["best_epochs"]), document["summary"]

    def timeline(self) -> tuple[Span, ...]:
        """Return where the time went until the last checkpoint, or in all."""
        for file, kind in ((self.result, "outcome"), (self.checkpoint, "checkpoint")):
            if file.exists():
                return _timeline(read_document(file, kind))
        return ()

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the last checkpoint, None if the run has not written one yet."""
        if not self.checkpoint.exists():
            return None
        document = read_document(self.checkpoint, "checkpoint")
        return Checkpoint(
            self.checkpoint,
            document["generation"],
            tuple(map(EpochRecord.of, document["history"])),
            tuple(document["members"]),
            _timeline(document),
        )


def environment_of(device: torch.device) -> dict[str, Any]:
    """Return versions and hardware, for the record."""
    name = platform.processor() or platform.machine()
    program = Path(sys.argv[0]).name.replace("__main__.py", "tepui")
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    return {
        "tepui": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "hardware": name,
        "command": shlex.join([program, *sys.argv[1:]]),
    }


def to_jsonable(value: Any) -> Any:
    """Return a hyperparameter in a form JSON can hold.

    Fields that do not count when values are compared are left out, and so are those
    marked as :data:`NEWER` that have their default: what was described before they
    existed keeps its description.

    Example:
        >>> from tepui.methods import SAM
        >>> to_jsonable(SAM(rho=0.2))["rho"]
        0.2
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = {
            field.name: to_jsonable(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.compare and not _left_out(field, getattr(value, field.name))
        }
        return {"class": path_of(type(value)), **shown}
    if isinstance(value, functools.partial):
        arguments = {name: to_jsonable(item) for name, item in value.keywords.items()}
        if value.args:
            arguments["positional"] = to_jsonable(value.args)
        return {"class": to_jsonable(value.func), **arguments}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): to_jsonable(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [to_jsonable(item) for item in value]
    if callable(value):
        return path_of(value if hasattr(value, "__qualname__") else type(value))
    return str(value)


def path_of(item: Any) -> str:
    """Return what tells a class or function from others: its path, if not tepui's.

    Example:
        >>> import collections
        >>> from tepui.methods import SAM
        >>> path_of(SAM), path_of(collections.Counter)
        ('SAM', 'collections.Counter')
    """
    module, name = item.__module__ or "", str(item.__qualname__)
    if module.partition(".")[0] in ("", "tepui"):
        return name
    # A spawned process knows the classes of its parent's script by another module.
    return f"{'__main__' if module == '__mp_main__' else module}.{name}"


def fingerprint(dataset: Dataset[Any]) -> dict[str, Any]:
    """Return what tells a data set from another: type, length and content."""
    identity: dict[str, Any] = {
        "class": type(dataset).__qualname__,
        "samples": length(dataset),
    }
    arrays = as_arrays(dataset)
    if arrays is not None:
        digest = hashlib.sha256()
        inputs = arrays.inputs
        parts = [inputs] if isinstance(inputs, Tensor) else list(inputs.values())
        for tensor in (*parts, arrays.targets):
            flat = tensor.detach().cpu().contiguous().flatten()
            digest.update(flat.view(torch.uint8).numpy().data)
        identity["sha256"] = digest.hexdigest()
        identity["normalize"] = to_jsonable(arrays.normalize)
    elif isinstance(dataset, StoredData):
        identity |= dataset.identity()
        identity["normalize"] = to_jsonable(dataset.normalize)
    return identity


def _left_out(field: "dataclasses.Field[Any]", value: object) -> bool:
    return field.metadata == NEWER and value == field.default


def _timeline(document: Mapping[str, Any]) -> tuple[Span, ...]:
    return tuple(map(Span.of, document.get("timeline", ())))


def _line(record: EpochRecord) -> str:
    return json.dumps(seal("epoch", asdict(record))) + "\n"
