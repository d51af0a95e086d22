"""Every member's logits on a data set, and between which classes members choose."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import one_of, require
from tepui.core.precision import Precision, computing_in
from tepui.data.labels import class_subset
from tepui.data.loading import at_rows, in_order, inputs_to, length
from tepui.ensembles.ensemble import Ensemble
from tepui.modules.running import device_of, evaluating, refusal_named
from tepui.tasks.base import Task
from tepui.tasks.named import settled

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
) -> Iterator[tuple[Tensor, Tensor]]:
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
