"""Every member's outputs on a data set, with its targets."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.precision import Precision, computing_in
from tepui.data.loading import at_rows, in_order, inputs_to
from tepui.modules.running import device_of, evaluating, refusal_named

Batches = Iterator[tuple[Tensor, Tensor]]


def dataset_logits(
    ensemble: nn.Module,
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
    ensemble: nn.Module,
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
