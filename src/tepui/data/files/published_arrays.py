"""A published data set that is read whole into tensors."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy.typing as npt
import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.data.arrays import Arrays, Normalize
from tepui.data.files.installing import located
from tepui.data.files.origins import Origin

Values = Tensor | npt.NDArray[Any]
Contents = tuple[Values, Values, tuple[str, ...]]


class PublishedArrays(Arrays, ABC):
    """A published data set held in tensors.

    Args:
        root: The data folder, or the set's own; see :mod:`tepui.data.files.origins`.
        train: The training part if true, else the test part.
        download: Download the set if it is missing.

    Attributes:
        origin: Where the set comes from.
        normalization: What its images are normalized by.
        shape: Channels, height and width of an image.
        num_samples: Images in the training part (true) and in the test part (false).

    Raises:
        FileNotFoundError: If a file is missing; the message says how to get it.
        ValueError: If a file is truncated, foreign or of the wrong size.
    """

    origin: ClassVar[Origin]
    normalization: ClassVar[Normalize]
    shape: ClassVar[tuple[int, int, int]]
    num_samples: ClassVar[dict[bool, int]]

    def __init__(
        self, root: str | Path | None = None, train: bool = True, download: bool = False
    ) -> None:
        folder = located(type(self).__name__, self.origin, root, download)
        *values, classes = self._read(folder, train)
        images, labels = map(torch.as_tensor, values)
        shape = (self.num_samples[train], *self.shape)
        fits = images.dtype == torch.uint8 and images.shape == shape
        described = f"{images.dtype} of shape {tuple(images.shape)}"
        require(fits, str(folder), f"hold bytes of shape {shape}", described)
        rule = f"hold {shape[0]} labels below {len(classes)}"
        require(labels.shape == shape[:1], str(folder), rule, f"{len(labels)} labels")
        require(int(labels.max()) < len(classes), str(folder), rule, int(labels.max()))
        super().__init__(images, labels.long(), self.normalization, classes)

    @abstractmethod
    def _read(self, folder: Path, train: bool) -> Contents:
        """Return the images, labels and class names of one part."""
