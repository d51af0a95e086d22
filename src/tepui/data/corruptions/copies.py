"""Corrupted copies of a data set, made when asked for and kept where there is room."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, TypeVar

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.data.arrays import Arrays
from tepui.data.corruptions.apply import (
    STANDARD,
    Corruption,
    check_images,
    corrupt,
    function_of,
    name_of,
)
from tepui.data.loading import to_arrays
from tepui.data.shifts import Shifts

SEVERITIES = (1, 2, 3, 4, 5)

# Values that are corrupted at once: what fits a cache, what fills a GPU.
_ON_CPU, _ON_GPU = 2**20, 2**24

# Copies are kept if all of them take no more: on the host in bytes, on a GPU as a share
# of the memory that is free when the first is made, since training needs it too.
KEPT_BYTES, KEPT_SHARE = 2**29, 0.1

Copy_co = TypeVar("Copy_co", bound=Dataset[Any], covariant=True)


class Copies(Mapping[tuple[str, int], Copy_co], ABC):
    """Corrupted copies of a data set by ``(name, severity)``."""

    types: tuple[str | Corruption, ...]
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

    def __or__(self, natural: Mapping[str, Dataset[Any]]) -> Shifts:
        """Return these copies and natural shifts by name; copies are made as before."""
        return Shifts(self, Shifts.of(natural).natural)

    @property
    def names(self) -> tuple[str, ...]:
        """What the corruptions are called."""
        return tuple(name_of(kind) for kind in self.types)

    @abstractmethod
    def _copy(self, name: str, severity: int) -> Copy_co:
        """Make or read one copy."""


@dataclass(frozen=True, eq=False)
class Corrupted(Copies[Arrays]):
    """The corrupted copies of a data set by ``(name, severity)``.

    A copy is made at each access, so that a whole sweep needs the memory of one, or
    with ``keep`` once. Copies are bytes, as in the published sets; floats are rounded
    to bytes before they are corrupted.

    Attributes:
        dataset: The clean images, which are corrupted on their device.
        types: Names of corruptions, and functions of your own
            (:data:`tepui.data.Corruption`), which go by their names.
        severities: Which of the severities 1 to 5.
        strength: Whose parameters to take, see :func:`tepui.data.corrupt`.
        seed: Same seed, same draws.
        keep: Make each copy once, for several ensembles to be tested on, if all copies
            fit into 512 MB of the host's memory, or into a tenth of the memory that is
            free on their GPU when the first is made.

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
    keep: bool = False
    _kept: dict[tuple[str, int], Arrays] = field(
        default_factory=dict, init=False, repr=False
    )

    def __post_init__(self) -> None:
        check_images("dataset", self.dataset.inputs)
        require(len(self) > 0, "types and severities", "not be empty", list(self))
        rule = "name each copy once"
        require(len({*self}) == len(self), "types and severities", rule, list(self))
        for kind in self.types:
            for severity in self.severities:
                function_of(kind, severity, self.strength)

    def made_on(self, device: torch.device) -> Self:
        """Return copies that are made on a device, for a model there.

        Args:
            device: Where the images shall be.

        Returns:
            Copies of the same images. These, if they are made there, or if a GPU has no
            room for the images, one copy and its parts.
        """
        there = self.dataset.device == device
        if there or (device.type == "cuda" and 3 * self._num_values > _free(device)):
            return self
        return replace(self, dataset=self.dataset.to(device))

    @property
    def _num_values(self) -> int:
        return check_images("dataset", self.dataset.inputs).numel()

    @cached_property
    def _is_room(self) -> bool:
        device = self.dataset.device
        kept = KEPT_SHARE * _free(device) if device.type == "cuda" else KEPT_BYTES
        return len(self) * self._num_values <= kept

    def _copy(self, name: str, severity: int) -> Arrays:
        if (name, severity) in self._kept:
            return self._kept[name, severity]
        copy = self.dataset.like(self._made(name, severity), self.dataset.targets)
        if self.keep and self._is_room:
            self._kept[name, severity] = copy
        return copy

    def _made(self, name: str, severity: int) -> Tensor:
        kind = self.types[self.names.index(name)]
        images = check_images("dataset", self.dataset.inputs)
        if images.dtype != torch.uint8:
            images = (images * 255).round().byte()
        values = _ON_CPU if images.device.type == "cpu" else _ON_GPU
        size = max(1, values // images[0].numel())
        how: dict[str, Any] = {"strength": self.strength, "seed": self.seed}
        chunks = [
            corrupt(chunk, kind, severity, first=number * size, **how)
            for number, chunk in enumerate(images.split(size))
        ]
        return torch.cat(chunks)


def _free(device: torch.device) -> int:
    """Return how many bytes of a GPU are free, with those that torch holds unused."""
    free, _ = torch.cuda.mem_get_info(device)
    reserved = torch.cuda.memory_reserved(device)
    return free + reserved - torch.cuda.memory_allocated(device)


def corrupted(
    dataset: Dataset[Any],
    *,
    types: Sequence[str | Corruption] = STANDARD,
    severities: Sequence[int] = SEVERITIES,
    strength: str = "cifar",
    seed: int = 0,
    keep: bool = False,
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
        keep: Make each copy once and keep it, if there is room for all of them, see
            :class:`Corrupted`.

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
    which = tuple(types), tuple(severities)
    return Corrupted(to_arrays(dataset), *which, strength, seed, keep)
