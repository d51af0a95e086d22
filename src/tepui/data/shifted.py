"""Corrupted copies of a data set, made when asked for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import Dataset

from tepui.checks import require
from tepui.data.arrays import Arrays
from tepui.data.convert import arrays_of
from tepui.data.corruptions import CORRUPTIONS, check_images, corrupt, parameter

_CHUNK = 256


@dataclass(frozen=True, eq=False)
class Corrupted(Mapping[tuple[str, int], Arrays]):
    """The corrupted copies of a data set by ``(name, severity)``.

    A copy is made at each access and not kept, so that a whole sweep needs the memory
    of one.

    Attributes:
        dataset: The clean images.
        types: Names of the corruptions.
        severities: Which of the severities 1 to 5.
        strength: Whose parameters to take, see :func:`tepui.data.corrupt`.
        seed: Same seed, same noise.

    Raises:
        ValueError: If the data set does not hold images, or a name or a severity is
            unknown.

    Example:
        >>> images = Arrays(torch.full((2, 1, 4, 4), 0.5), torch.tensor([0, 1]))
        >>> copies = Corrupted(images, types=("contrast", "brightness"))
        >>> len(copies), list(copies)[:2]
        (10, [('contrast', 1), ('contrast', 2)])
        >>> copies["brightness", 5].inputs[0, 0, 0]
        tensor([0.8000, 0.8000, 0.8000, 0.8000])
    """

    dataset: Arrays
    types: tuple[str, ...] = CORRUPTIONS
    severities: tuple[int, ...] = (1, 2, 3, 4, 5)
    strength: str = "cifar"
    seed: int = 0

    def __post_init__(self) -> None:
        check_images("dataset", self.dataset.inputs)
        require(len(self) > 0, "types and severities", "not be empty", list(self))
        for name, severity in self:
            parameter(name, severity, self.strength)

    def __getitem__(self, key: tuple[str, int]) -> Arrays:
        if key not in self:
            raise KeyError(f"key must be one of {list(self)}, got {key!r}")
        images = check_images("dataset", self.dataset.inputs)
        options: dict[str, Any] = {"strength": self.strength, "seed": self.seed}
        chunks = [
            corrupt(chunk, *key, first=number * _CHUNK, **options)
            for number, chunk in enumerate(images.split(_CHUNK))
        ]
        return self.dataset.like(torch.cat(chunks), self.dataset.targets)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return ((name, level) for name in self.types for level in self.severities)

    def __len__(self) -> int:
        return len(self.types) * len(self.severities)

    def __contains__(self, key: object) -> bool:
        return key in list(self)


def corrupted(
    dataset: Dataset[Any],
    *,
    types: Sequence[str] = CORRUPTIONS,
    severities: Sequence[int] = (1, 2, 3, 4, 5),
    strength: str = "cifar",
    seed: int = 0,
) -> Corrupted:
    """Return the corrupted copies of any data set of images.

    Args:
        dataset: Pairs of an image, bytes or floats in ``[0, 1]``, and a label. What is
            not ``Arrays`` is read once, see :func:`tepui.data.arrays_of`.
        types: Names of the corruptions.
        severities: Which of the severities 1 to 5.
        strength: Whose parameters to take: ``"cifar"``, ``"tiny_imagenet"`` or
            ``"imagenet"``.
        seed: Same seed, same noise.

    Returns:
        A mapping from ``(name, severity)`` to ``Arrays`` with the targets, class names
        and normalisation of the data set.

    Raises:
        ValueError: If the data set does not hold images, or a name or a severity is
            unknown.

    Example:
        >>> images = Arrays(torch.full((2, 1, 4, 4), 0.5), torch.tensor([0, 1]))
        >>> corrupted(images, severities=(5,))["contrast", 5].targets
        tensor([0, 1])
    """
    images = arrays_of(dataset)
    return Corrupted(images, tuple(types), tuple(severities), strength, seed)
