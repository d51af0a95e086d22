"""What an ensemble says of held-out data, from which it learns."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.warning import warn
from tepui.data.identity import fingerprint, same_data
from tepui.data.loading import in_order
from tepui.metrics import HeldOutScores
from tepui.modules.running import device_of, evaluating, refusal_named
from tepui.tasks.base import Task
from tepui.tasks.named import settled


class HeldOut(NamedTuple):
    """An ensemble's outputs on held-out data, with the targets."""

    outputs: Tensor
    targets: Tensor
    task: Task
    hashes: tuple[str, ...] = ()  # by which the data are known again


def held_out(
    ensemble: nn.Module,
    dataset: Dataset[Any],
    task: Task | None,
    trained_on: Sequence[str],
    batch_size: int,
    workers: int,
) -> HeldOut:
    """Return outputs and targets; warn if members were trained on these data."""
    hashes = fingerprint(dataset)
    if same_data(trained_on, hashes):
        warn(
            "dataset holds the training data, on which members are surer than on "
            "others; take data that they have not seen",
        )
    device, outputs, targets = device_of(ensemble), [], []
    for batch in in_order(dataset, batch_size, device=device, workers=workers):
        with evaluating(ensemble), torch.no_grad(), refusal_named(batch.inputs):
            outputs.append(ensemble(batch.inputs).float())
        targets.append(batch.targets)
    whole = torch.cat(outputs, dim=1)
    meant = settled(task, tuple(whole.shape))
    return HeldOut(whole, torch.cat(targets), meant, hashes)


def fitted_scores(held: HeldOut) -> HeldOutScores | None:
    """Return what held-out samples score; None where nothing can tell them apart."""
    predicted = held.task.prediction(held.outputs)
    if not predicted.judging:
        return None
    return HeldOutScores.fit(predicted.scores(predicted.judging))
