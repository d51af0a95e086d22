"""Ensembles of one to five members, as figures 8 and 15 have them.

Independent members do not know of each other, so that an ensemble of two is the first
two members of one of five, and one of five is that of figure 7 with two members more:
their stored logits are joined. SharpBalance's members know of each other, so that each
size is trained; a single one trains with SAM.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tepui.methods import ExchangingMethod
from tepui.papers.recipe import Numbers, Order, Size
from tepui.papers.sharpbalance.protocol import (
    FEW,
    compared,
    protocol_of,
)
from tepui.papers.sharpbalance.scores import Scored, score_records
from tepui.papers.sharpbalance.settings import settings
from tepui.studies import EvaluationSpec, Job, Record, Store, Trial, seeds
from tepui.tasks import Scores
from tepui.tasks.scores import mean_scores

_ALL = (1, 2, 3, 4, 5)
# Numbers of members, by size of the study and data set.
MEMBERS: Mapping[Size, Mapping[str, tuple[int, ...]]] = {
    "paper": {"cifar10": _ALL, "cifar100": _ALL},
    "medium": {"cifar10": _ALL, "cifar100": _ALL},
    "small": {"cifar10": _ALL, "cifar100": (1, 3, 5)},
    "smoke": {"cifar10": (1, 2, 3), "cifar100": (1, 2, 3)},
}


class JoinedEnsemble(NamedTuple):
    """An ensemble of some size, in one repetition."""

    trials: tuple[Trial, ...]  # what to train; their members are joined in this order
    members: int  # how many of them count, from the first


def groups(order: Order, dataset: str, name: str, members: int) -> list[JoinedEnsemble]:
    """Return an ensemble of some number of members per repetition."""
    protocol = protocol_of(order, dataset, FEW)
    largest = max(MEMBERS[order.size][dataset])
    method = (protocol.methods() | protocol.released(dataset))[name]
    if isinstance(method, ExchangingMethod):
        if members > 1:
            whole = protocol.trials(method, members=members)
            return [JoinedEnsemble((trial,), members) for trial in whole]
        method = protocol.methods()["sam"]
    usual = protocol.trials(method)
    if members <= protocol.members:
        return [JoinedEnsemble((trial,), members) for trial in usual]
    return [
        JoinedEnsemble(
            (trial, replace(trial, seeds=seeds(n, largest)[protocol.members :])),
            members,
        )
        for n, trial in enumerate(usual)
    ]


def group_scores(
    store: Store, group: JoinedEnsemble, test: EvaluationSpec
) -> dict[str, Scored]:
    """Return the scores of an ensemble, clean and corrupted."""
    stored = [store.logits(trial, test) for trial in group.trials]

    def joined(parts: Iterable[tuple[Tensor, Tensor]]) -> Any:
        logits, labels = zip(*parts, strict=True)
        every = torch.cat(logits)[: group.members]
        return Scores.of(every, labels[0], stored[0].rule)

    copies = stored[0].shifted
    shifted = [joined(trial.shifted[copy] for trial in stored) for copy in copies]
    return {
        "clean": joined(trial.clean for trial in stored).document(),
        "shifted": mean_scores(shifted).document(),
    }


def growing_numbers(
    order: Order, dataset: str, metrics: Mapping[str, Sequence[str]], **names: Any
) -> Iterator[Numbers]:
    """Return metrics of every method by ensemble size."""
    protocol = protocol_of(order, dataset)
    test = replace(protocol.evaluation_spec(), logits_read=True)
    for name in compared(order, protocol, dataset):
        for members in MEMBERS[order.size][dataset]:
            several = groups(order, dataset, name, members)
            named = {"method": name, "at": {"ensemble_size": members}, **names}
            yield Numbers(
                [Job(trial, (test,)) for group in several for trial in group.trials],
                partial(_records, several, test, dataset, metrics, named),
            )


def _records(
    several: Sequence[JoinedEnsemble],
    test: EvaluationSpec,
    dataset: str,
    metrics: Mapping[str, Sequence[str]],
    names: Mapping[str, Any],
    store: Store,
) -> Iterator[Record]:
    evaluated = [group_scores(store, group, test) for group in several]
    runs = [trial for group in several for trial in group.trials]
    for part, wanted in metrics.items():
        data = dataset if part == "clean" else f"{dataset}_c"
        of_part = [parts[part] for parts in evaluated]
        yield from score_records(of_part, wanted, runs, dataset=data, **names)


def growing_settings(order: Order, datasets: Sequence[str]) -> dict[str, Any]:
    """Return the settings of the study, with its ensemble sizes."""
    document = settings(order, datasets, protocols=FEW)
    for name in datasets:
        sizes = list(MEMBERS[order.size][name])
        document[name]["members"] = sizes
    return document
