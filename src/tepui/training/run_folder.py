"""The folder of a training run: what was asked, what happened, where it stands.

A checkpoint is a document, and a file of tensors for every member. Members' files are
written first, each of a new generation beside those of the one before. They count once
the document names them by their digests; the old ones are removed after that, so that a
kill at any time leaves a whole checkpoint.
"""

import json
import platform
import reprlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.lease import LEASE, Lease, is_free, leased
from tepui.core.precision import Precision
from tepui.core.provenance import command_line
from tepui.core.replacing import write_bytes
from tepui.core.spec import check_same, differences, document
from tepui.core.storage import (
    is_sealed,
    read_document,
    read_lines,
    read_tensors,
    reading,
    sealed_line,
    tensors_digest,
    write_document,
    write_tensors,
)
from tepui.core.version import __version__
from tepui.data.arrays import Arrays
from tepui.data.identity import data_identity, tensors_hash
from tepui.data.labels import class_names
from tepui.data.loading import as_arrays
from tepui.data.stored import StoredData
from tepui.ensembles.ensemble import FILE, Ensemble
from tepui.ensembles.loading import DIVERGED, RUN, divergence_in
from tepui.modules.sharing import frozen_names
from tepui.modules.state import (
    description,
    load_tensor_state,
    structure_digest,
    tensor_state,
)
from tepui.training.checks import RunData
from tepui.training.exchange import Exchange
from tepui.training.history import EpochRecord, History, Outcome, Timeline
from tepui.training.member import TrainingDiverged, under
from tepui.training.numerics import Numerics
from tepui.training.spec import ExecutionSpec, TrainingSpec

# How values are shown in messages: not longer than one can read.
SHOWN = reprlib.Repr()
SHOWN.maxstring = 70
REMEDY = "give it what it had, or begin another run in a new folder"
# What trackers call the run.
TRACKING = "tracking.json"
# By which data, model and extractor a command trained the run, and by which options.
OPTIONS, OPTIONS_KIND = "options.json", "options"
COMPARISON = "index.json"


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands: a document, and a file of tensors for every member."""

    path: Path
    generation: int  # which checkpoint of the run it is, from 1
    history: tuple[EpochRecord, ...]
    digests: tuple[str, ...]  # of the members' files, in member order
    timeline: Timeline  # where the time went until then
    stopped_by: str | None = None  # who ended the run with it, if anybody
    frozen: str | None = None  # the digest of the file of frozen tensors, if any are

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the checkpoint that a document describes."""
        document = read_document(path, "checkpoint")
        with reading(path, "a checkpoint"):
            return cls(
                path,
                document["generation"],
                tuple(map(EpochRecord.of, document["history"])),
                tuple(document["members"]),
                document["timeline"],
                document["stopped_by"],
                document["frozen"],
            )

    def member(self, index: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors of a member, and what else a resumed run needs of it."""
        return read_tensors(self.file(index), "member")

    def file(self, index: int) -> Path:
        """Return the file of a member, which must be the one that is meant."""
        file = member_file(self.path, index, self.generation)
        return self._checked(file, self.digests[index])

    def restore_frozen(self, modules: Sequence[nn.Module]) -> None:
        """Put back what the run's members do not train."""
        if self.frozen is None:
            return
        file = self._checked(frozen_file(self.path), self.frozen)
        tensors, _ = read_tensors(file, "frozen")
        for index, module in enumerate(modules):
            own = under(f"{index}.", tensors)
            load_tensor_state(module, {**tensor_state(module), **own}, str(file))

    def _checked(self, file: Path, digest: str) -> Path:
        if tensors_digest(file) != digest:
            raise ValueError(
                f"{file} must be the file that {self.path} names, but its digest is "
                "another"
            )
        return file


def member_file(checkpoint: Path, index: int, generation: int) -> Path:
    """Return where a member's part of a checkpoint lies."""
    return checkpoint.with_suffix("") / f"member{index}-{generation}.safetensors"


def frozen_file(checkpoint: Path) -> Path:
    """Return where the frozen tensors of a run lie."""
    return checkpoint.with_suffix("") / "frozen.safetensors"


def write_frozen(checkpoint: Path, modules: Sequence[nn.Module]) -> None:
    """Write what training leaves as it is, what modules share once.

    That is done once per run, before the first checkpoint names it.
    """
    tensors = {
        f"{index}.{name}": tensor
        for index, module in enumerate(modules)
        if (names := frozen_names(module))
        for name, tensor in tensor_state(module).items()
        if name in names
    }
    if tensors:
        write_tensors(frozen_file(checkpoint), "frozen", tensors, {})


def write_member(
    checkpoint: Path,
    index: int,
    generation: int,
    tensors: Mapping[str, Tensor],
    document: Mapping[str, Any],
) -> None:
    """Write a member's part of a checkpoint, which counts once it is committed."""
    file = member_file(checkpoint, index, generation)
    write_tensors(file, "member", tensors, document)


def commit(
    checkpoint: Path,
    generation: int,
    members: int,
    history: Sequence[EpochRecord],
    timeline: Timeline,
    stopped_by: str | None = None,
) -> None:
    """Make the files of a generation the run's checkpoint; remove all others."""
    files = [member_file(checkpoint, index, generation) for index in range(members)]
    frozen = frozen_file(checkpoint)
    document = {
        "generation": generation,
        "members": [tensors_digest(file) for file in files],
        "history": [asdict(record) for record in history],
        "timeline": timeline,
        "stopped_by": stopped_by,
        "frozen": tensors_digest(frozen) if frozen.exists() else None,
    }
    write_document(checkpoint, "checkpoint", document)
    for file in checkpoint.with_suffix("").iterdir():
        if file not in (*files, frozen):
            file.unlink(missing_ok=True)


class RunFolder:
    """A run folder on disk."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.description = self.path / RUN
        self.metrics = self.path / "metrics.jsonl"
        self.checkpoint = self.path / "checkpoint.json"
        self.result = self.path / "outcome.json"
        self.ensemble = self.path / FILE
        self.divergence = self.path / DIVERGED
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
            # A kill before the run was written down may leave a temporary file.
            if not is_free(self.path):
                raise FileExistsError(
                    f"out must be a new or empty folder, got {self.path}"
                )
            return
        if self._is_bare:  # of a run that ended before anything came of it
            return
        if not resume:
            if diverged := divergence_in(self.path):
                raise FileExistsError(diverged)
            raise FileExistsError(
                f"{self.path} holds a run; pass resume=True (--resume) to continue it, "
                "or choose another folder"
            )
        check_settings(self.recorded()["config"], config, self.path)

    @contextmanager
    def claimed(self, config: dict[str, Any], *, resume: bool) -> Iterator[None]:
        """Keep other processes out of the folder, from its first file to its last.

        If the run diverges, its last file says so. One of which nothing came gives way.

        Raises:
            LeaseHeldError: If one that lives is training in it.
        """
        with leased(self.path / LEASE, wait=False) as lease:
            self.check(config, resume=resume)  # another may have begun meanwhile
            self._lease = lease
            for file in self._begun_files if self._is_bare else ():
                file.unlink(missing_ok=True)
            self.divergence.unlink(missing_ok=True)
            try:
                yield
                self.check_there()
            except TrainingDiverged as error:
                document = {"reason": str(error), "remedy": error.remedy}
                write_document(self.divergence, "divergence", document)
                raise
            finally:
                self._lease = None

    @property
    def _begun_files(self) -> tuple[Path, ...]:
        """What lies here before anything came of a run, the file that names it last."""
        names = (TRACKING, *options_in(self.path))
        return self.metrics, *(self.path / name for name in names), self.description

    @property
    def _is_bare(self) -> bool:
        """Whether nothing lies here but that a run began."""
        names = [file.name for file in self._begun_files]
        return self.epochs_done == 0 and is_free(self.path, names)

    def check_there(self) -> None:
        """Raise if the folder was removed or taken over since the run began in it."""
        if self._lease is not None:
            self._lease.check()
        if not self.started:
            raise FileNotFoundError(
                f"{self.path} was removed or emptied while its run was training; start "
                "again in a new folder"
            )

    def begin(self, config: dict[str, Any], origin: Checkpoint | None) -> None:
        """Write down what was asked for, unless the run began before."""
        if not self.started:
            document = {
                "config": config,
                "environment": environment_of(torch.device(config["device"])),
                "branched_from": origin and str(origin.path.parent),
            }
            write_document(self.description, "run", document)

    def threads(self) -> int | None:
        """Return the number of threads the run began with."""
        return self.recorded()["config"]["threads"] if self.started else None

    def exam_precision(self) -> Precision:
        """Return what its ensemble is examined in: TF32, unless trained in float32."""
        trained = self.recorded()["config"]["precision"] if self.started else None
        return "float32" if trained == "float32" else "tf32"

    def recorded(self) -> dict[str, Any]:
        """Return what was asked for (``config``) and where (``environment``)."""
        return read_document(self.description, "run")

    def history(self) -> History:
        """Return the records of all epochs so far, none if there is no file."""
        if not self.metrics.exists():
            return History()
        with reading(self.metrics, "records of epochs"):
            return History(map(EpochRecord.of, read_lines(self.metrics, "epoch")))

    def write_history(self, history: Sequence[EpochRecord]) -> None:
        """Write all records of the run so far, one JSON object per line."""
        self.check_there()
        lines = [sealed_line("epoch", asdict(record)) for record in history]
        write_bytes(self.metrics, "".join(lines).encode())

    def write_outcome(self, outcome: Outcome) -> None:
        """Write what came of the run beside its ensemble."""
        self.check_there()
        said = {field.name: getattr(outcome, field.name) for field in fields(Outcome)}
        del said["history"]
        write_document(self.result, "outcome", said)

    def outcome(self) -> Outcome:
        """Return what came of the run; what is not over has its epochs so far."""
        if not self.result.is_file():
            saved = self.load_checkpoint()
            return Outcome(self.history(), timeline=saved.timeline if saved else {})
        document = read_document(self.result, "outcome")
        with reading(self.result, "the outcome of a run"):
            best = tuple(map(int, document.pop("best_epochs")))
            return Outcome(self.history(), best, **document)

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the last checkpoint, None if the run has not written one yet."""
        return Checkpoint.read(self.checkpoint) if self.checkpoint.exists() else None


def recorded_options(run: Path) -> dict[str, Any]:
    """Return what is written down of a run: beside it, or beside its comparison."""
    above = run.absolute().parent.parent
    file = run / OPTIONS
    if not file.is_file() and (above / COMPARISON).is_file():
        file = above / OPTIONS
    if not file.is_file():
        return {}
    options: dict[str, Any] = read_document(file, OPTIONS_KIND)["options"]
    return options


def options_in(folder: Path) -> tuple[str, ...]:
    """Return what files a command left of its options, none if they are of others."""
    file = folder / OPTIONS
    return (OPTIONS,) if file.is_file() and is_sealed(file) else ()


def run_config(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    data: RunData,
    spec: TrainingSpec,
    execution: ExecutionSpec,
    numerics: Numerics,
) -> dict[str, Any]:
    """Return what was asked for, as a run folder records it."""
    config: dict[str, Any] = document(spec)
    del config["class"]
    config |= {
        "seeds": list(ensemble.seeds),
        "runner": execution.runner,
        "compile": execution.compile,
        "device": numerics.device.type,
        "precision": numerics.precision,
        "deterministic": execution.deterministic,
        "threads": numerics.threads,
    }
    config["models"] = [
        description(member) | {"layers": structure_digest(member)}
        for member in ensemble.members
    ]
    config["data"] = data_identity(data.train) | {
        "class": type(dataset).__qualname__,
        "classes": list(class_names(data.train)),
    }
    for name, part in (("unlabeled", data.unlabeled), ("validation", data.held_out)):
        config[name] = None if part is None else data_identity(part)
    if data.weights is not None:
        config["sample_weights"] = data_identity(Arrays(data.weights, data.weights))
    return config


def check_settings(begun: Mapping[str, Any], now: Mapping[str, Any], run: Path) -> None:
    """Raise if a run's settings differ from those that it was started with.

    Example:
        >>> check_settings({"seeds": [1]}, {"seeds": [2]}, Path("a"))
        Traceback (most recent call last):
        ValueError: seeds must be what the run in a was started with (0: 1) to resume it, got 2; give it what it had, or begin another run in a new folder
    """  # noqa: E501 - a doctest must show the whole message
    both = ({"members": len(each.get("models", ())), **each} for each in (begun, now))
    if not (found := differences(*both)):
        return
    name, (then, given) = next(iter(found.items()))
    first, *others = dict.fromkeys(name.partition(".")[0] for name in found)
    place = name.removeprefix(first).removeprefix(".")
    had = f"{place}: {SHOWN.repr(then)}" if place else SHOWN.repr(then)
    more = f"; so must {', '.join(others)}" if others else ""
    raise ValueError(
        f"{first} must be what the run in {run} was started with ({had}) to resume it, "
        f"got {SHOWN.repr(given)}{more}; {REMEDY}"
    )


def check_agreement(
    exchange: Exchange,
    config: Mapping[str, Any],
    ensemble: Ensemble,
    dataset: Dataset[Any],
) -> None:
    """Raise on every rank alike unless all were told and have the same.

    Every rank writes its own members into one folder: ranks that differ would make a
    run which is none of theirs.
    """
    data, members = dict(config["data"]), [_hashes(m) for m in ensemble.members]
    if as_arrays(dataset) is None and not isinstance(dataset, StoredData):
        data["hashes"] = ensemble.trained_on  # nothing else tells their order
    versions = {"torch": torch.__version__, "tepui": __version__}
    check_same(
        exchange.everywhere({**versions, **config, "data": data, "members": members})
    )


def _hashes(member: nn.Module) -> dict[str, str]:
    """Return shape and hash of a member's tensors, the same on any machine."""
    return {
        name: f"{tuple(tensor.shape)}, sha256 {tensors_hash({name: tensor})[:16]}"
        for name, tensor in tensor_state(member).items()
    }


def environment_of(device: torch.device) -> dict[str, Any]:
    """Return versions and hardware, for the record."""
    name = platform.processor() or platform.machine()
    program = Path(sys.argv[0]).name.replace("__main__.py", "tepui")
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    return {
        "tepui": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "hardware": name,
        "command": command_line([program, *sys.argv[1:]]),
    }
