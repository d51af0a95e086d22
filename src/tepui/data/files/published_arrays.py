"""A published data set that is read whole into tensors."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from tepui.data.arrays import Arrays, Normalize
from tepui.data.files.installing import located
from tepui.data.files.origins import Origin

Contents = tuple[Tensor, Tensor, tuple[str, ...]]


class PublishedArrays(Arrays, ABC):
    """A published data set held in tensors.

    Args:
        root: The data folder, or the set's own; see :mod:`tepui.data.files.origins`.
        train: The training part if true, else the test part.
        download: Download the set if it is not there.

    Attributes:
        origin: Where the set comes from.
        normalization: What its images are normalized by.

    Raises:
        FileNotFoundError: If a file is not there; the message says how to get it.
        ValueError: If a file is truncated, foreign or of another size.
    """

    origin: ClassVar[Origin]
    normalization: ClassVar[Normalize]

    def __init__(
        self, root: str | Path | None = None, train: bool = True, download: bool = False
    ) -> None:
        folder = located(type(self).__name__, self.origin, root, download)
        images, labels, classes = self._read(folder, train)
        super().__init__(images, labels, self.normalization, classes)

    @abstractmethod
    def _read(self, folder: Path, train: bool) -> Contents:
        """Return images, labels and class names of one part."""
