"""Where a run stands, on disk: a document, and a file of tensors for every member.

Members' files are written first, each of a new generation beside those of the one
before. They count once the document names them by their digests; the old ones are
removed after that, so that a kill at any time leaves a whole checkpoint.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from tepui.core.storage import (
    read_document,
    read_tensors,
    reading,
    tensors_digest,
    write_document,
    write_tensors,
)
from tepui.training.history import EpochRecord
from tepui.training.timeline import Timeline


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands: a document, and a file of tensors for every member."""

    path: Path
    generation: int  # which checkpoint of the run it is, from 1
    history: tuple[EpochRecord, ...]
    digests: tuple[str, ...]  # of the members' files, in member order
    timeline: Timeline  # where the time went until then
    stopped_by: str | None = None  # who ended the run with it, if anybody

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
            )

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
    document = {
        "generation": generation,
        "members": [tensors_digest(file) for file in files],
        "history": [asdict(record) for record in history],
        "timeline": timeline,
        "stopped_by": stopped_by,
    }
    write_document(checkpoint, "checkpoint", document)
    for file in checkpoint.with_suffix("").iterdir():
        if file not in files:
            file.unlink(missing_ok=True)
