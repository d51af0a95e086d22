"""Logits that an evaluation stored, for metrics that need no model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from tepui.core.checks import labels_match, logits_shape, require
from tepui.core.storage import read_tensors, tensors_document
from tepui.core.tensor_stream import TensorStream, writing_tensors
from tepui.data.arrays_on_disk import StoredArray
from tepui.data.shifts import Cell
from tepui.metrics import Rule, pairwise_disagreement
from tepui.tasks.base import Task
from tepui.tasks.named import read_task

LogitType = Literal["float32", "float16", "none"]
"""What logits are stored in; not at all, where nothing needs them."""

LOGITS = "logits.safetensors"
TYPES = {"float32": torch.float32, "float16": torch.float16}


@dataclass(frozen=True, eq=False)
class StoredLogits:
    """Every member's logits on clean, shifted and unfamiliar data.

    Attributes:
        rule: How the evaluation combined members.
        clean: Logits ``(members, samples, classes)`` and labels ``(samples,)``; of
            another task, its outputs and targets.
        shifted: The same by type and severity of the shift, 0 for a natural one.
        ood: Logits on unfamiliar data, which have no labels, by name.
        task: What they mean.
    """

    rule: Rule
    clean: tuple[Tensor, Tensor]
    shifted: Mapping[Cell, tuple[Tensor, Tensor]]
    ood: Mapping[str, Tensor]
    task: Task

    def pairwise(
        self, metric: Callable[[Tensor], Tensor] = pairwise_disagreement
    ) -> dict[Cell, Tensor]:
        """Return a matrix of pairs of members for each type and severity.

        Args:
            metric: ``pairwise_disagreement``, ``pairwise_kl`` or another function of
                logits that returns a matrix.

        Returns:
            Matrices ``(members, members)`` by type and severity.
        """
        return {cell: metric(logits) for cell, (logits, _) in self.shifted.items()}


def read_logits(folder: str | Path) -> StoredLogits:
    """Read the logits that ``tepui.evaluate(..., out=folder)`` wrote.

    Args:
        folder: Where they are.

    Returns:
        The logits, on the CPU.

    Raises:
        FileNotFoundError: If there are none.
        ValueError: If the file is truncated, foreign or damaged.

    Example:
        >>> import tempfile, torch, tepui
        >>> data = tepui.data.Arrays(torch.randn(30, 4), torch.arange(30) % 3)
        >>> ensemble = tepui.Ensemble.build(lambda: torch.nn.Linear(4, 3), members=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     shifted = {("noise", 1): data}
        ...     _ = tepui.evaluate(ensemble, data, shifted=shifted, out=folder)
        ...     stored = read_logits(folder)
        >>> stored.pairwise()["noise", 1].shape
        torch.Size([2, 2])
    """
    file = Path(folder) / LOGITS
    tensors, document = read_tensors(file, "logits")
    try:
        rule = document["rule"]
        cells = [(str(kind), int(severity)) for kind, severity in document["cells"]]
        task = read_task(document["task"])
        clean = _checked(tensors, "clean", task)
        names = {cell: f"{cell[0]}/{cell[1]}" for cell in cells}
        shifted = {cell: _checked(tensors, name, task) for cell, name in names.items()}
        ood = {
            str(name): _unlabeled(tensors[f"ood/{name}"], clean[0])
            for name in document.get("ood", [])
        }
        if rule not in get_args(Rule):
            raise ValueError(f"rule {rule!r} is unknown")
    except (KeyError, TypeError, ValueError) as error:
        rule = f"{file} must hold an evaluation's logits"
        raise ValueError(f"{rule}, but: {error!r}") from error
    return StoredLogits(rule, clean, shifted, ood, task)


def chooses_classes(folder: Path) -> bool:
    """Return whether the logits in a folder choose one class for each sample."""
    file = folder / LOGITS
    clean = StoredArray.open(file, "logits/clean")
    task = read_task(tensors_document(file)["task"])
    return task.choices(tuple(clean.shape)) is not None


def within(logits: Tensor, dtype: torch.dtype) -> Tensor:
    """Return logits in a type; those beyond its range become its largest numbers."""
    limit = torch.finfo(dtype).max
    return logits.clamp(-limit, limit).to(dtype)


class LogitStore:
    """A file of logits in the making, which takes them run by run."""

    def __init__(self, file: TensorStream, dtype: torch.dtype) -> None:
        self._file, self._dtype = file, dtype

    def put(
        self, name: str, samples: int, start: int, logits: Tensor, labels: Tensor | None
    ) -> None:
        """Store a run of a data set of so many samples."""
        kind = "ood" if labels is None else "logits"
        if start == 0:
            shape = (len(logits), samples, *logits.shape[2:])
            self._file.begin(f"{kind}/{name}", shape, self._dtype)
        values = within(logits, self._dtype)
        self._file.put(f"{kind}/{name}", values, start, axis=1)
        if labels is None:
            return
        if start == 0:
            dtype = labels.dtype if labels.is_floating_point() else torch.int64
            self._file.begin(f"labels/{name}", (samples, *labels.shape[1:]), dtype)
        self._file.put(f"labels/{name}", labels, start)


@contextmanager
def storing_logits(
    file: Path,
    rule: Rule,
    cells: Sequence[Cell],
    ood: Sequence[str],
    logits_in: LogitType,
    task: Task,
    of: Mapping[str, Any] | None = None,
) -> Iterator[LogitStore]:
    """Yield what takes the logits of an evaluation, as :func:`read_logits` reads them.

    The file is there once all of them are. It says what they are ``of``.
    """
    sets = ["clean", *(f"{kind}/{severity}" for kind, severity in cells)]
    names = [f"{part}/{name}" for name in sets for part in ("logits", "labels")]
    names += [f"ood/{name}" for name in ood]
    document: dict[str, Any] = {"rule": rule, "ood": [*ood], "task": task.written()}
    document["cells"] = [list(cell) for cell in cells]
    if of is not None:
        document["of"] = dict(of)
    with writing_tensors(file, "logits", names, document) as stream:
        yield LogitStore(stream, TYPES[logits_in])


def _checked(
    tensors: Mapping[str, Tensor], name: str, task: Task
) -> tuple[Tensor, Tensor]:
    logits, labels = tensors[f"logits/{name}"], tensors[f"labels/{name}"]
    if task.choices(tuple(logits.shape)) is not None:
        logits_shape(logits)
        labels_match(labels, logits)
    rule = f"be one per sample of shape {tuple(logits.shape)}"
    fits = logits.ndim > 1 and len(labels) == logits.shape[1]
    require(fits, "targets", rule, tuple(labels.shape))
    return logits, labels


def _unlabeled(logits: Tensor, clean: Tensor) -> Tensor:
    members, outputs = len(clean), tuple(clean.shape[2:])
    rule = f"hold {members} member(s) and {outputs} outputs"
    same = (len(logits), tuple(logits.shape[2:])) == (members, outputs)
    require(same, "logits", rule, tuple(logits.shape))
    return logits
