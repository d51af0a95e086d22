"""Corrupted copies of a data set, made when asked for."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.data.arrays import Arrays
from tepui.data.convert import to_arrays
from tepui.data.corruptions.apply import (
    STANDARD,
    Corruption,
    check_images,
    check_severity,
    corrupt,
    name_of,
    parameter,
)

SEVERITIES = (1, 2, 3, 4, 5)

# Values that are corrupted at once: what fits a cache, what fills a GPU.
_ON_CPU, _ON_GPU = 2**20, 2**24

Copy_co = TypeVar("Copy_co", bound=Dataset[Any], covariant=True)


class Copies(Mapping[tuple[str, int], Copy_co], ABC):
    """Corrupted copies of a data set by ``(name, severity)``, none of them kept."""

    severities: tuple[int, ...]

    def __getitem__(self, key: tuple[str, int]) -> Copy_co:
        if key not in self:
            raise KeyError(f"key must be one of {list(self)}, got {key!r}")
        return self._copy(*key)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return ((name, level) for name in self.names for level in self.severities)

    def __len__(self) -> int:
        return len(self.names) * len(self.severities)

    def __contains__(self, key: object) -> bool:
        return key in list(self)

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """What the corruptions are called."""

    @abstractmethod
    def _copy(self, name: str, severity: int) -> Copy_co:
        """Make or read one copy."""


@dataclass(frozen=True, eq=False)
class Corrupted(Copies[Arrays]):
    """The corrupted copies of a data set by ``(name, severity)``.

    A copy is made at each access and not kept, so that a whole sweep needs the memory
    of one. Copies are bytes, as in the published sets; floats are rounded to bytes
    before they are corrupted.

    Attributes:
        dataset: The clean images, which are corrupted on their device.
        types: Names of corruptions, and functions of your own
            (:data:`tepui.data.Corruption`), which go by their names.
        severities: Which of the severities 1 to 5.
        strength: Whose parameters to take, see :func:`tepui.data.corrupt`.
        seed: Same seed, same draws.
        textures: For ``frost``, see :func:`tepui.data.load_frost`.

    Raises:
        ValueError: If the data set does not hold images, or a name or a severity is
            unknown.

    Example:
        >>> images = Arrays(torch.full((2, 1, 4, 4), 0.5), torch.tensor([0, 1]))
        >>> copies = Corrupted(images, types=("contrast", "brightness"))
        >>> len(copies), list(copies)[:2]
        (10, [('contrast', 1), ('contrast', 2)])
        >>> copies["brightness", 5].inputs[0, 0, 0]
        tensor([204, 204, 204, 204], dtype=torch.uint8)
    """

    dataset: Arrays
    types: tuple[str | Corruption, ...] = STANDARD
    severities: tuple[int, ...] = SEVERITIES
    strength: str = "cifar"
    seed: int = 0
    textures: tuple[Tensor, ...] | None = None

    def __post_init__(self) -> None:
        check_images("dataset", self.dataset.inputs)
        require(len(self) > 0, "types and severities", "not be empty", list(self))
        require(len({*self}) == len(self), "types", "have different names", list(self))
        for kind in self.types:
            for severity in self.severities:
                if isinstance(kind, str):
                    parameter(kind, severity, self.strength)
                check_severity(severity)

    @property
    def names(self) -> tuple[str, ...]:
        """What the corruptions are called."""
        return tuple(name_of(kind) for kind in self.types)

    def _copy(self, name: str, severity: int) -> Arrays:
        kind = self.types[self.names.index(name)]
        images = check_images("dataset", self.dataset.inputs)
        if images.dtype != torch.uint8:
            images = (images * 255).round().byte()
        values = _ON_CPU if images.device.type == "cpu" else _ON_GPU
        size = max(1, values // images[0].numel())
        chunks = [
            corrupt(
                chunk,
                kind,
                severity,
                strength=self.strength,
                seed=self.seed,
                first=number * size,
                textures=self.textures,
            )
            for number, chunk in enumerate(images.split(size))
        ]
        return self.dataset.like(torch.cat(chunks), self.dataset.targets)


def corrupted(
    dataset: Dataset[Any],
    *,
    types: Sequence[str | Corruption] = STANDARD,
    severities: Sequence[int] = SEVERITIES,
    strength: str = "cifar",
    seed: int = 0,
    textures: Sequence[Tensor] | None = None,
) -> Corrupted:
    """Return the corrupted copies of any data set of images.

    Args:
        dataset: Pairs of an image, bytes or floats in ``[0, 1]``, and a label. What is
            not ``Arrays`` is read once, see :func:`tepui.data.to_arrays`.
        types: Names of corruptions, the fifteen standard ones by default, and
            functions of your own (:data:`tepui.data.Corruption`).
        severities: Which of the severities 1 to 5.
        strength: Whose parameters to take: ``"cifar"``, ``"tiny_imagenet"`` or
            ``"imagenet"``.
        seed: Same seed, same draws.
        textures: For ``frost``, from :func:`tepui.data.load_frost`; None for
            procedural ones.

    Returns:
        A mapping from ``(name, severity)`` to ``Arrays`` of bytes with the targets,
        class names and normalization of the data set.

    Raises:
        ValueError: If the data set does not hold images, or a name or a severity is
            unknown.

    Example:
        >>> images = Arrays(torch.full((2, 1, 4, 4), 0.5), torch.tensor([0, 1]))
        >>> corrupted(images, severities=(5,))["contrast", 5].targets
        tensor([0, 1])
    """
    images = to_arrays(dataset)
    frost = None if textures is None else tuple(textures)
    return Corrupted(images, tuple(types), tuple(severities), strength, seed, frost)
