"""Ensembles of one to five members, as figures 8 and 15 have them.

Independent members do not know of each other, so that an ensemble of two is the first
two members of one of five, and one of five is that of figure 7 with two members more:
their stored logits are joined. SharpBalance's members know of each other, so that each
size is trained; a single one trains with SAM.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tepui.evaluation.scores import mean_scores, scores
from tepui.evaluation.stored_logits import Cell
from tepui.methods import ExchangingMethod
from tepui.papers.recipe import Size
from tepui.papers.sharpbalance.protocol import (
    SCALES,
    exam,
    methods,
    settings,
    trials,
)
from tepui.papers.sharpbalance.scores import Scored, score_records
from tepui.studies.jobs import Job
from tepui.studies.results import Record, Results
from tepui.studies.specifications import EvaluationSpec, Trial, seeds
from tepui.studies.store import Store

_ALL = (1, 2, 3, 4, 5)
# Numbers of members, by size of the study and data set.
MEMBERS: Mapping[Size, Mapping[str, tuple[int, ...]]] = {
    "paper": {"cifar10": _ALL, "cifar100": _ALL},
    "small": {"cifar10": _ALL, "cifar100": (1, 3, 5)},
    "smoke": {"cifar10": (1, 2, 3), "cifar100": (1, 2, 3)},
}
ENSEMBLES: Mapping[Size, int] = {"paper": 3, "small": 2, "smoke": 2}


class Group(NamedTuple):
    """An ensemble of some size, in one repetition.

    Attributes:
        trials: What to train; their members are joined in this order.
        members: How many of them count, from the first.
    """

    trials: tuple[Trial, ...]
    members: int


def groups(size: Size, dataset: str, name: str, members: int) -> list[Group]:
    """Return an ensemble of some number of members per repetition."""
    scale = SCALES[size][dataset]._replace(ensembles=ENSEMBLES[size])
    largest = max(MEMBERS[size][dataset])
    method = methods(scale)[name]
    if isinstance(method, ExchangingMethod):
        if members > 1:
            whole = trials(scale, method, members=members)
            return [Group((trial,), members) for trial in whole]
        method = methods(scale)["sam"]
    usual = trials(scale, method)
    if members <= scale.members:
        return [Group((trial,), members) for trial in usual]
    return [
        Group(
            (trial, replace(trial, seeds=seeds(each, largest)[scale.members :])),
            members,
        )
        for each, trial in enumerate(usual)
    ]


def work(size: Size, datasets: Sequence[str]) -> list[Job]:
    """Return what to train and test, for all sizes of all methods."""
    return [
        Job(trial, (exam(SCALES[size][dataset]),))
        for dataset in datasets
        for name in methods(SCALES[size][dataset])
        for members in MEMBERS[size][dataset]
        for group in groups(size, dataset, name, members)
        for trial in group.trials
    ]


def group_scores(
    store: Store, group: Group, asked: EvaluationSpec
) -> dict[str, Scored]:
    """Return the scores of an ensemble, clean and corrupted."""
    found = [store.answers(trial, asked) for trial in group.trials]

    def joined(parts: Sequence[tuple[Tensor, Tensor]]) -> Any:
        logits = torch.cat([logits for logits, _ in parts])[: group.members]
        return scores(logits, parts[0][1], rule=found[0].rule)

    cells: Sequence[Cell] = list(found[0].shifted)
    shifted = [joined([each.shifted[cell] for each in found]) for cell in cells]
    return {
        "clean": joined([each.clean for each in found]).document(),
        "shifted": mean_scores(shifted).document(),
    }


def growing_records(
    store: Store,
    size: Size,
    dataset: str,
    metrics: Mapping[str, Sequence[str]],
    **names: Any,
) -> Iterator[Record]:
    """Return metrics of every method by ensemble size."""
    scale = SCALES[size][dataset]
    for name in methods(scale):
        for members in MEMBERS[size][dataset]:
            several = groups(size, dataset, name, members)
            found = [group_scores(store, group, exam(scale)) for group in several]
            for part, wanted in metrics.items():
                yield from score_records(
                    [each[part] for each in found],
                    wanted,
                    [trial for group in several for trial in group.trials],
                    dataset=dataset if part == "clean" else f"{dataset}_c",
                    method=name,
                    at={"ensemble_size": members},
                    **names,
                )


def lines(found: Results, **names: Any) -> dict[str, list[Record]]:
    """Return some records by their methods, for a curve each."""
    shown = found.find(**names)
    return {
        method: [record for record in shown if record.method == method]
        for method in dict.fromkeys(record.method for record in shown)
    }


def growing_settings(size: Size, datasets: Sequence[str]) -> dict[str, Any]:
    """Return the settings of the study, with its ensemble sizes."""
    document = settings(size, datasets)
    for name in datasets:
        sizes = {"members": list(MEMBERS[size][name]), "ensembles": ENSEMBLES[size]}
        document[name] |= sizes
    return document
