"""Numbers of members that do not depend on each other, for comparisons in pairs.

Members that two methods train with one seed are a pair. The improvement rate is one of
ensembles: it is taken of all groups of members, over all repetitions, and a member's
value is that of the jackknife.
"""

from collections.abc import Sequence
from itertools import combinations
from statistics import fmean

import torch
from torch import Tensor

from tepui.evaluation.stored_logits import StoredLogits
from tepui.metrics import Rule, ensemble_predictions, individual_accuracy
from tepui.studies.jackknife import group_pseudo_values

Answered = tuple[Tensor, Tensor]  # logits of all members, and labels
AT_A_TIME = 32  # groups whose answers are joined at once


def member_values(
    stored: Sequence[StoredLogits], part: str
) -> dict[str, tuple[float, ...]]:
    """Return individual accuracy in percent and improvement rate, by member.

    The rate is left out where there is one ensemble, or a group without errors.
    """
    sets = _joined(stored, part)
    alone = _means([individual_accuracy(*one).tolist() for one in sets])
    found = {"individual_accuracy": tuple(100 * value for value in alone)}
    size = len(stored[0].clean[0])
    if len(stored) > 1 and size > 1 and max(alone) < 1:
        rates = improvement_rates(sets, alone, size, stored[0].rule)
        found["eir"] = tuple(group_pseudo_values(rates))
    return found


def improvement_rates(
    sets: Sequence[Answered], alone: Sequence[float], size: int, rule: Rule
) -> dict[tuple[int, ...], float]:
    """Return the share of its members' error that each group of some size removes."""
    groups = [*combinations(range(len(alone)), size)]
    together = _means([_group_accuracies(*one, groups, rule) for one in sets])
    members = [fmean(alone[member] for member in group) for group in groups]
    return {
        group: (joined - single) / (1 - single)
        for group, joined, single in zip(groups, together, members, strict=True)
    }


def _group_accuracies(
    logits: Tensor, labels: Tensor, groups: Sequence[tuple[int, ...]], rule: Rule
) -> list[float]:
    """Return the accuracy of each group, some groups at a time."""
    found: list[float] = []
    for chosen in torch.tensor(groups).split(AT_A_TIME):
        beside = logits[chosen.T].flatten(1, 2)  # groups as further samples
        predicted = ensemble_predictions(beside, rule=rule)
        right = predicted.view(len(chosen), -1) == labels
        found += right.double().mean(1).tolist()
    return found


def _joined(stored: Sequence[StoredLogits], part: str) -> list[Answered]:
    """Return the answers of the members of all repetitions, by data set."""
    first = stored[0]
    if part == "clean":
        return [(torch.cat([each.clean[0] for each in stored]), first.clean[1])]
    return [
        (torch.cat([each.shifted[copy][0] for each in stored]), labels)
        for copy, (_, labels) in first.shifted.items()
    ]


def _means(rows: Sequence[Sequence[float]]) -> list[float]:
    return [fmean(column) for column in zip(*rows, strict=True)]
