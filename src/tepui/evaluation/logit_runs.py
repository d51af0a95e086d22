"""Stored logits in runs of samples, for files that are larger than memory."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.data.arrays_on_disk import StoredArray
from tepui.data.shifts import Cell
from tepui.evaluation.stored_logits import LOGITS
from tepui.metrics.chunks import samples_at_once


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
        file, labels = Path(folder) / LOGITS, None
        name = "clean" if data is None else "/".join(map(str, data))
        if isinstance(data, str):
            array = StoredArray.open(file, f"ood/{data}")
        else:
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
