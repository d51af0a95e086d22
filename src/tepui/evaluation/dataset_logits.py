"""Every member's logits on a data set, and between which classes members choose.

Several processes can share the batches: each runs every so-manyth through the members,
and the logits of as many batches as there are processes are exchanged at a time, so
that each of them computes the same scores, in the same order, as one process.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, Protocol, TypeVar, get_args

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import one_of, require
from tepui.core.precision import Precision, computing_in
from tepui.core.spec import check_same
from tepui.data.labels import class_subset
from tepui.data.loading import at_rows, in_order, inputs_to, length
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.feature_detectors import FeatureDetectors, joined_scores, scoring
from tepui.modules.running import device_of, evaluating, refusal_named
from tepui.tasks.base import Task
from tepui.tasks.named import settled

T = TypeVar("T")
Batches = Iterator[tuple[Tensor, Tensor]]

Classes = Literal["held", "all"]
"""Members choose between the classes that a data set holds, or between all."""


def dataset_logits(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    batch_size: int = 1024,
    workers: int = 0,
    precision: Precision = "tf32",
) -> tuple[Tensor, Tensor]:
    """Return every member's logits on a data set, with the labels."""
    how = {"batch_size": batch_size, "workers": workers, "precision": precision}
    batches = logit_batches(ensemble, dataset, **how)  # type: ignore[arg-type]
    logits, labels = zip(*batches, strict=True)
    return torch.cat(logits, dim=1), torch.cat(labels)


def logit_batches(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    batch_size: int = 1024,
    workers: int = 0,
    precision: Precision = "tf32",
    rows: Sequence[Tensor] | None = None,
) -> Batches:
    """Yield every member's logits on the batches of a data set, with the labels.

    Without ``rows``, which are those of each batch, all samples are read in order.
    """
    require(batch_size > 0, "batch_size", "be positive", batch_size)
    device = device_of(ensemble)
    batches = in_order(dataset, batch_size, device=device, workers=workers)
    if rows is not None:
        batches = at_rows(dataset, rows, device=device, workers=workers)
    for batch in batches:
        with evaluating(ensemble), torch.no_grad(), computing_in(precision, device):
            inputs = inputs_to(batch.inputs, device)
            with refusal_named(inputs):
                logits = ensemble(inputs).float()
        yield logits, batch.targets


def classes_left(classes: Classes | Tensor, dataset: Dataset[Any]) -> Tensor | None:
    """Return which classes members choose between on a data set; None for all."""
    if isinstance(classes, Tensor):
        fits = classes.ndim == 1 and classes.dtype == torch.bool
        rule = "be a boolean tensor of shape (classes,), or a word"
        got = f"{classes.dtype} of shape {tuple(classes.shape)}"
        require(fits, "classes", rule, got)
        return classes
    one_of("classes", classes, get_args(Classes))
    return class_subset(dataset) if classes == "held" else None


def task_on(ensemble: Ensemble, dataset: Dataset[Any]) -> tuple[Task, tuple[int, ...]]:
    """Return what outputs mean, and their shape of one sample."""
    length(dataset)
    outputs, _ = next(logit_batches(ensemble, dataset, 1, rows=[torch.arange(1)]))
    shape = tuple(outputs.shape)
    return settled(ensemble.task, shape), shape


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
) -> Batches:
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


class Watched:
    """Batches of an ensemble's logits, whose features are scored as they go by."""

    def __init__(
        self,
        score: Callable[[Tensor], dict[str, Tensor]],
        batches: Callable[[Any], Batches],
    ) -> None:
        self.score, self.batches = score, batches
        self.rows: list[dict[str, Tensor]] = []

    def __call__(self, data: Any) -> Batches:
        """Yield the batches of a data set, or of some of its rows."""
        self.rows = []
        for logits, labels in self.batches(data):
            self.rows.append(self.score(logits))
            yield logits, labels

    def scores(self) -> dict[str, Tensor]:
        """Return the scores of the last data set."""
        return joined_scores(self.rows)


@contextmanager
def watching(
    ensemble: Ensemble,
    detectors: FeatureDetectors | None,
    batches: Callable[[Any], Batches],
) -> Iterator[Watched]:
    """Score the features of all batches inside the block; without detectors, none."""
    with scoring(ensemble, detectors) as score:
        yield Watched(score, batches)
