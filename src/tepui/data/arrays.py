"""A data set held in tensors, the form that trains fastest."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import require

Inputs = Tensor | Mapping[str, Tensor]


class Division(NamedTuple):
    """How the batch that carries it is divided into two kinds of samples.

    Whoever divides a batch puts the samples of the first kind into its first rows;
    whoever reads it calls :meth:`Batch.parts`, and nothing else knows their order.

    Attributes:
        rows: How many of the batch's samples are of the first kind: its first ``rows``
            rows.
        share: Share of the whole training data that is of the first kind, which may
            differ a little from that in a batch.
    """

    rows: int
    share: float


class Batch(NamedTuple):
    """What a training step sees.

    Attributes:
        inputs: A tensor, or a mapping of tensors for dict inputs.
        targets: One target per sample.
        index: Position of each sample in its data set.
        division: How these very rows are divided, if they are.
    """

    inputs: Inputs
    targets: Tensor
    index: Tensor  # type: ignore[assignment]  # hides tuple.index
    division: Division | None = None

    def take(self, rows: slice | Tensor) -> "Batch":
        """Return some of the samples, undivided."""
        inputs = self.inputs
        if isinstance(inputs, Tensor):
            chosen: Inputs = inputs[rows]
        else:
            chosen = {name: value[rows] for name, value in inputs.items()}
        return Batch(chosen, self.targets[rows], self.index[rows])

    def parts(self) -> tuple["Batch", "Batch"]:
        """Return the samples of the first kind and those of the second.

        Raises:
            ValueError: If the batch is not divided.

        Example:
            >>> numbers = torch.arange(3)
            >>> batch = Batch(numbers, numbers, numbers, Division(rows=1, share=0.25))
            >>> [part.index.tolist() for part in batch.parts()]
            [[0], [1, 2]]
        """
        if self.division is None:
            raise ValueError("division must be given to part a batch, got None")
        rows = self.division.rows
        return self.take(slice(rows)), self.take(slice(rows, None))


@dataclass(frozen=True)
class Normalize:
    """Scale images to ``[0, 1]`` if they are bytes, then ``(x - mean) / std``.

    Attributes:
        mean: One mean per channel.
        std: One standard deviation per channel.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        require(
            len(self.mean) == len(self.std) > 0,
            "std",
            f"have one entry per mean ({len(self.mean)})",
            self.std,
        )
        require(min(self.std) > 0, "std", "be positive", self.std)

    def __call__(self, images: Tensor) -> Tensor:
        """Return normalized images of shape ``(samples, channels, height, width)``."""
        images = to_float(images)
        mean = _channels(self.mean, images.dtype, images.device)
        std = _channels(self.std, images.dtype, images.device)
        return (images - mean) / std


@functools.lru_cache(maxsize=32)
def _channels(
    values: tuple[float, ...], dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return one value per channel, cached because copying to a GPU blocks."""
    return torch.tensor(values, dtype=dtype, device=device)[:, None, None]


def to_float(images: Tensor) -> Tensor:
    """Map bytes to ``[0, 1]`` in float32; leave floating-point images as they are."""
    return images.float().div_(255) if images.dtype == torch.uint8 else images


@dataclass(frozen=True, eq=False)
class Arrays(Dataset[tuple[Inputs, Tensor]]):
    """A map-style data set of ``(x, y)`` held in tensors.

    Attributes:
        inputs: Samples along the first axis: a tensor or a mapping of tensors. Images
            are ``(samples, channels, height, width)``, bytes or floats in ``[0, 1]``.
        targets: One target per sample.
        normalize: Applied to batches of images; None leaves float inputs alone and
            scales bytes to ``[0, 1]``.
        classes: Names of the classes, where they have names.
    """

    inputs: Inputs
    targets: Tensor
    normalize: Normalize | None = None
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, tensor in self._named():
            require(
                len(tensor) == len(self.targets),
                name,
                f"have as many samples as targets ({len(self.targets)})",
                len(tensor),
            )
        require(len(self.targets) > 0, "dataset", "hold at least one sample", 0)

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Inputs, Tensor]:
        inputs = self.prepare(self.raw(torch.tensor([index], device=self.device)))
        if isinstance(inputs, Tensor):
            return inputs[0], self.targets[index]
        return {name: value[0] for name, value in inputs.items()}, self.targets[index]

    @property
    def device(self) -> torch.device:
        """The device that holds the data."""
        return self.targets.device

    def raw(self, index: Tensor) -> Inputs:
        """Return the stored inputs at ``index``, neither augmented nor normalized."""
        if isinstance(self.inputs, Tensor):
            return self.inputs[index]
        return {name: tensor[index] for name, tensor in self.inputs.items()}

    def prepare(self, inputs: Inputs) -> Inputs:
        """Return stored inputs as a model sees them: floats, normalized."""
        if not isinstance(inputs, Tensor):
            return inputs
        return self.normalize(inputs) if self.normalize else to_float(inputs)

    def like(self, inputs: Inputs, targets: Tensor) -> "Arrays":
        """Return other samples with the same normalization and classes."""
        return Arrays(inputs, targets, self.normalize, self.classes)

    def subset(self, index: Tensor | Sequence[int]) -> "Arrays":
        """Return the samples at ``index`` as a data set of their own."""
        rows = torch.as_tensor(index, device=self.device)
        return self.like(self.raw(rows), self.targets[rows])

    def to(self, device: str | torch.device) -> "Arrays":
        """Return the data set with its tensors on ``device``."""
        if isinstance(self.inputs, Tensor):
            inputs: Inputs = self.inputs.to(device)
        else:
            inputs = {name: tensor.to(device) for name, tensor in self.inputs.items()}
        return self.like(inputs, self.targets.to(device))

    def _named(self) -> list[tuple[str, Tensor]]:
        if isinstance(self.inputs, Tensor):
            return [("inputs", self.inputs)]
        return [(f"inputs[{name!r}]", tensor) for name, tensor in self.inputs.items()]
