"""Logits that an evaluation stored, for metrics that need no model."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self, final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.storage import TensorStream, read_tensors, reading, writing_tensors
from tepui.data.arrays_on_disk import StoredArray
from tepui.data.shifts import NATURAL, Cell, Shifts
from tepui.evaluation.evaluations import CLEAN, CORRUPTED, LOGITS, file_of, names_in
from tepui.metrics import Rule
from tepui.metrics.chunks import samples_at_once
from tepui.tasks.base import Task
from tepui.tasks.named import read_task

LogitType = Literal["float32", "float16", "none"]
"""What logits are stored in; not at all, where nothing needs them."""

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
        >>> stored.shifted["noise", 1][0].shape
        torch.Size([2, 30, 3])
    """
    shifted: dict[Cell, tuple[Tensor, Tensor]] = {}
    ood: dict[str, Tensor] = {}
    for name in dict.fromkeys([CLEAN, *names_in(folder, LOGITS)]):
        file = file_of(folder, name, LOGITS)
        tensors, document = read_tensors(file, "logits")
        with reading(file, "an evaluation's logits"):
            if name == CLEAN:
                rule, task = document["rule"], read_task(document["task"])
                clean = tensors[f"logits/{CLEAN}"], tensors[f"labels/{CLEAN}"]
            for kind, severity in document["cells"]:
                cell = f"{kind}/{severity}"
                own = tensors[f"logits/{cell}"], tensors[f"labels/{cell}"]
                shifted[kind, severity] = own
            ood |= {far: tensors[f"ood/{far}"] for far in document["ood"]}
    return StoredLogits(rule, clean, shifted, ood, task)


def within(logits: Tensor, dtype: torch.dtype) -> Tensor:
    """Return logits in a type; those beyond its range become its largest numbers."""
    limit = torch.finfo(dtype).max
    return logits.clamp(-limit, limit).to(dtype)


class LogitStore:
    """Files of logits in the making, which take them run by run."""

    def __init__(self, files: Mapping[str, TensorStream], dtype: torch.dtype) -> None:
        self._files, self._dtype = files, dtype

    def put(
        self, name: str, samples: int, start: int, logits: Tensor, labels: Tensor | None
    ) -> None:
        """Store a run of a data set of so many samples."""
        place = f"ood/{name}" if labels is None else f"logits/{name}"
        file = self._files[place]
        if start == 0:
            shape = (len(logits), samples, *logits.shape[2:])
            file.begin(place, shape, self._dtype)
        file.put(place, within(logits, self._dtype), start, axis=1)
        if labels is None:
            return
        if start == 0:
            dtype = labels.dtype if labels.is_floating_point() else torch.int64
            file.begin(f"labels/{name}", (samples, *labels.shape[1:]), dtype)
        file.put(f"labels/{name}", labels, start)


@contextmanager
def storing_logits(
    folder: str | Path,
    rule: Rule,
    shifts: Shifts,
    ood: Iterable[str],
    logits_in: LogitType,
    task: Task,
) -> Iterator[LogitStore]:
    """Yield what takes the logits of an evaluation, as :func:`read_logits` reads them.

    The files are there once all logits are.
    """
    cells: dict[str, list[Cell]] = {CLEAN: []}
    if shifts.copies:
        cells[CORRUPTED] = [*shifts.copies]
    cells |= {name: [(name, NATURAL)] for name in shifts.natural}
    files: dict[str, TensorStream] = {}
    with ExitStack() as stack:
        for name in (*cells, *ood):
            known, far = cells.get(name, []), [] if name in cells else [name]
            sets = [CLEAN] if name == CLEAN else [f"{k}/{hard}" for k, hard in known]
            names = [f"{part}/{n}" for part in ("logits", "labels") for n in sets]
            names += [f"ood/{each}" for each in far]
            document = {
                "rule": rule,
                "task": task.written(),
                "ood": far,
                "cells": [*map(list, known)],
            }
            file = file_of(folder, name, LOGITS)
            stream = writing_tensors(file, "logits", names, document)
            files |= dict.fromkeys(names, stack.enter_context(stream))
        yield LogitStore(files, TYPES[logits_in])


@final
@dataclass(frozen=True)
class LogitRuns:
    """The logits of one data set, of which a run of samples is read at a time.

    Runs are those that metrics cut all logits into, so that what streams over them
    gives the same bits as over the whole.

    Attributes:
        array: Where the logits lie, ``(members, samples, classes)``.
        members: How many of the members are read, from the first on.
        labels: ``(samples,)``; None for unfamiliar data.

    Example:
        >>> import tempfile, tepui
        >>> data = tepui.data.Arrays(torch.randn(30, 4), torch.arange(30) % 3)
        >>> ensemble = tepui.Ensemble.build(lambda: torch.nn.Linear(4, 3), members=5)
        >>> with tempfile.TemporaryDirectory() as out:
        ...     _ = tepui.evaluate(ensemble, data, out=out, logits_in="float16")
        ...     for logits, labels in LogitRuns.open(out).of_first(2).read():
        ...         logits.shape
        torch.Size([2, 30, 3])
    """

    array: StoredArray
    members: int
    labels: Tensor | None

    @classmethod
    def open(cls, folder: str | Path, data: Cell | str | None = None) -> Self:
        """Find the logits of one data set in a folder that an evaluation wrote.

        Args:
            folder: What ``tepui.evaluate`` was given as ``out``.
            data: Type and severity of shifted data, the name of unfamiliar data, or
                None for the clean ones.

        Returns:
            The logits, of which none have been read.

        Raises:
            FileNotFoundError: If there are none.
            ValueError: If the file is damaged, or holds no such data.
        """
        if isinstance(data, str):
            array = StoredArray.open(file_of(folder, data, LOGITS), f"ood/{data}")
            return cls(array, array.shape[0], None)
        kind, severity = data or (CLEAN, NATURAL)
        file = file_of(folder, CORRUPTED if severity else kind, LOGITS)
        name = f"{kind}/{severity}" if data else CLEAN
        array = StoredArray.open(file, f"logits/{name}")
        labels = StoredArray.open(file, f"labels/{name}").read_all()
        return cls(array, array.shape[0], labels)

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return self.array.shape[1]

    def of_first(self, members: int) -> Self:
        """Return the logits of the first members alone.

        Args:
            members: How many.

        Returns:
            Their logits, of which none have been read.
        """
        rule = f"lie in [1, {self.members}]"
        require(1 <= members <= self.members, "members", rule, members)
        return replace(self, members=members)

    def labeled(self, labels: Tensor) -> Self:
        """Return the same with labels, which unfamiliar data are stored without.

        Args:
            labels: One per sample.

        Returns:
            The logits, of which none have been read.
        """
        rule = f"hold one label for each of {self.samples} samples"
        require(len(labels) == self.samples, "labels", rule, len(labels))
        return replace(self, labels=labels.cpu())

    def read(self) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Read one run after the other.

        Yields:
            Logits ``(members, samples, classes)`` of a run as they are stored, and its
            labels, if there are any.
        """
        _, samples, classes = self.array.shape
        rows = replace(self.array, shape=(self.array.shape[0] * samples, classes))
        firsts = samples * torch.arange(self.members).unsqueeze(1)
        together = samples_at_once(torch.empty(self.members, 0, classes))
        for index in torch.arange(samples).split(together):
            logits = rows.read((firsts + index).flatten())
            labels = None if self.labels is None else self.labels[index]
            yield logits.view(self.members, len(index), classes), labels
