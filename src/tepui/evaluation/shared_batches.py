"""The batches of a data set over several processes, each of which sees all logits.

A process runs every so-manyth batch through the members, and the logits of as many
batches as there are processes are exchanged at a time, so that each of them computes
the same scores, in the same order, as one process alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.agreement import check_same
from tepui.core.checks import require
from tepui.core.precision import Precision
from tepui.data.loading import length
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.dataset_logits import logit_batches
from tepui.modules.running import device_of

T = TypeVar("T")


class Processes(Protocol):
    """How processes reach each other, such as ``tepui.training.exchange_here()``."""

    @property
    def writer(self) -> bool:
        """Whether this process writes; one of them does."""

    @property
    def sharing(self) -> int:
        """How many processes have the same share."""

    def owned(self, members: int) -> Sequence[int]:
        """Return which of so many parts are this process's."""

    def everywhere(self, value: T) -> list[T]:
        """Return a value of every process."""

    def collect(self, values: Mapping[int, T]) -> list[T]:
        """Return the values of all parts, of which these are this process's."""

    def attending(self) -> AbstractContextManager[None]:
        """Let others know if this process leaves the block by an error."""


def shared_logit_batches(
    processes: Processes,
    ensemble: Ensemble,
    dataset: Dataset[Any],
    batch_size: int,
    workers: int,
    precision: Precision,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the logits and labels of all batches, of which this process runs some."""
    require(batch_size > 0, "batch_size", "be positive", batch_size)
    device = device_of(ensemble)
    samples = length(dataset)
    told = processes.everywhere({"samples": samples})
    check_same(told)  # who has fewer would be in the next data set before the others
    rows = torch.arange(samples).split(batch_size)
    own = [*processes.owned(len(rows))]
    mine = [rows[number] for number in own]
    batches = logit_batches(ensemble, dataset, batch_size, workers, precision, mine)
    together = len(told) // processes.sharing
    for first in range(0, len(rows), together):
        shown = {n: next(batches) for n in own if first <= n < first + together}
        for logits, labels in processes.collect(shown):
            yield logits.to(device), labels.to(device)
