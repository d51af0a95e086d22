"""Which class the samples that an ensemble misses were called."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

# Kept of each data set: all of twelve classes, the most frequent of more.
MOST = 132


class Confusion(NamedTuple):
    """How often samples of one class were called another.

    Attributes:
        truth: The class that they are of.
        called: The class that they were called.
        samples: How many they are.
    """

    truth: str
    called: str
    samples: int


def confusions(
    labels: Tensor, called: Tensor, names: Sequence[str]
) -> tuple[Confusion, ...]:
    """Return the confusions of classes, the most frequent first.

    Example:
        >>> labels, called = torch.tensor([0, 0, 1, 2]), torch.tensor([1, 1, 1, 0])
        >>> for each in confusions(labels, called, ["ant", "bee", "cow"]):
        ...     print(*each)
        ant bee 2
        cow ant 1
    """
    wrong = labels != called
    pairs = labels[wrong].long() * len(names) + called[wrong]
    found, counts = torch.unique(pairs, return_counts=True)
    kept = counts.argsort(descending=True, stable=True)[:MOST]
    places = zip(found[kept].tolist(), counts[kept].tolist(), strict=True)
    return tuple(
        Confusion(names[pair // len(names)], names[pair % len(names)], count)
        for pair, count in places
    )
