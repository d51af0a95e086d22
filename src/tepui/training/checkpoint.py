"""Where a run stands, on disk: a document, and a file of tensors for every member.

Members' files are written first, each of a new generation beside those of the one
before. They count once the document names them by their digests; the old ones are
removed after that, so that a kill at any time leaves a whole checkpoint. Frozen tensors
are written once per run, for all members, before the first checkpoint names them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from tepui.core.checks import require
from tepui.core.storage import (
    read_document,
    read_tensors,
    reading,
    tensors_digest,
    write_document,
    write_tensors,
)
from tepui.modules.pruning import masks_in_state
from tepui.modules.sharing import frozen_names
from tepui.modules.state import load_tensor_state, tensor_state
from tepui.training.history import EpochRecord, Timeline
from tepui.training.member import Best, TrainingMember


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
            own = _under(f"{index}.", tensors)
            load_tensor_state(module, {**tensor_state(module), **own}, str(file))

    def _checked(self, file: Path, digest: str) -> Path:
        if not file.is_file():
            raise FileNotFoundError(f"no file {file}, which {self.path} names")
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
    """Write what training leaves as it is, what modules share once."""
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


def tensors_of(member: TrainingMember) -> dict[str, Tensor]:
    """Return every tensor that a resumed run needs, but for what is frozen."""
    joint = member.joint_losses
    return {
        "losses": member.step_losses,
        **({} if joint is None else {"joint": joint}),
        **_prefixed("module", member.trained_state()),
        **_prefixed("best", member.best.weights),
        **_prefixed("method", member.state),
        **_prefixed("average", member.average),
        **{
            f"optimizer/{name}": value
            for name, value in _optimizer_state(member.optimizer)
            if isinstance(value, Tensor)
        },
    }


def document_of(member: TrainingMember) -> dict[str, Any]:
    """Return everything else that a resumed run needs."""
    best = [member.best.loss, member.best.epoch] if member.best.weights else None
    numbers = {
        name: value
        for name, value in _optimizer_state(member.optimizer)
        if isinstance(value, bool | int | float)
    }
    return {
        "step": member.step,
        "exchanged": member.exchanged,
        "best": best,
        "optimizer": numbers,
    }


def restore(
    member: TrainingMember,
    tensors: Mapping[str, Tensor],
    document: dict[str, Any],
    *,
    branches: bool = False,
) -> None:
    """Put back what :func:`tensors_of` and :func:`document_of` took out.

    A run that branches off one whose method kept no state begins with its own, and one
    that will be pruned with its own masks.
    """
    where = f"checkpoint of member {member.index}"
    masks = masks_in_state(member.module) if branches else {}
    member.load_trained({**masks, **_under("module/", tensors)}, where)
    member.step_losses.copy_(tensors["losses"])
    if member.joint_losses is not None:
        member.joint_losses.copy_(tensors["joint"])
    member.step = document["step"]
    member.exchanged = document["exchanged"]
    if document["best"] is not None:
        weights = {**masks, **_under("best/", tensors)}
        copies = {name: tensor.to(member.device) for name, tensor in weights.items()}
        loss, epoch = document["best"]
        member.best = Best(loss, epoch, copies)
    state = _under("method/", tensors)
    if state or not branches:
        _refill(member.state, state, f"method's state in {where}")
    _refill(member.average, _under("average/", tensors), f"average in {where}")
    restore_optimizer(
        member.optimizer, {**_under("optimizer/", tensors), **document["optimizer"]}
    )
    member.offload()


def restore_optimizer(
    optimizer: torch.optim.Optimizer, values: Mapping[str, Any]
) -> None:
    """Give an optimizer its state, in the memory that a captured graph reads."""
    state: dict[int, dict[str, Any]] = {}
    for name, value in values.items():
        number, key = name.split("/", 1)
        state.setdefault(int(number), {})[key] = value
    groups = optimizer.state_dict()["param_groups"]
    rates = [group["lr"] for group in optimizer.param_groups]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    # A captured graph reads this very tensor.
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    # Fused optimizers compute wrong updates, silently, when a buffer lies in another
    # memory format than its parameter.
    for parameter, entries in optimizer.state.items():
        for key, value in entries.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                entries[key] = torch.empty_like(parameter).copy_(value).detach()


def _refill(
    tensors: Mapping[str, Tensor], saved: Mapping[str, Tensor], what: str
) -> None:
    """Copy saved values into existing tensors."""
    rule = f"hold the tensors {sorted(tensors)}"
    require(saved.keys() == tensors.keys(), what, rule, sorted(saved))
    for name, tensor in tensors.items():
        same = saved[name].shape == tensor.shape
        rule = f"have shape {tuple(tensor.shape)} in {name!r}"
        require(same, what, rule, tuple(saved[name].shape))
        tensor.copy_(saved[name])


def _optimizer_state(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Any]]:
    for number, entries in optimizer.state_dict()["state"].items():
        for name, value in entries.items():
            yield f"{number}/{name}", value


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def _under(start: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(start): tensor
        for name, tensor in tensors.items()
        if name.startswith(start)
    }
