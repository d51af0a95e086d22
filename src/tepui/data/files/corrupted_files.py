"""Corrupted test sets as released: read, not generated.

Two layouts hold a test set under several corruptions, each at severities 1 to 5:

- one ``.npy`` file per corruption (CIFAR-10-C): bytes ``(5·samples, height, width,
  channels)``, the rows of severity 1 first, and ``labels.npy`` of the same length;
- one folder per corruption, in it one per severity, in it one per class
  (Tiny-ImageNet-C, ImageNet-C).

Either is a mapping from ``(corruption, severity)`` to a data set, as
:func:`tepui.evaluate` takes for ``shifted``. A cell is read at each access and not
kept.

References:
    Hendrycks and Dietterich (2019), Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.storage import read_json
from tepui.data.arrays import Arrays, Normalize
from tepui.data.corruptions import CORRUPTIONS
from tepui.data.corruptions.copies import SEVERITIES
from tepui.data.files.origins import require_file
from tepui.data.files.write_corrupted import MANIFEST, digest
from tepui.data.image_files import Frame, ImageFiles, class_folders, labeled

Cell = tuple[str, int]


class CorruptedFiles(Mapping[Cell, Dataset[Any]], ABC):
    """Corrupted copies of a test set, read from disk.

    Attributes:
        folder: Where they lie.
        types: Names of the corruptions.
        severities: Which of the severities 1 to 5.
        like: The clean test set that every copy must agree with, if it is known.
    """

    like: Arrays | ImageFiles | None = None

    def __init__(
        self, folder: Path, types: Sequence[str] | None, severities: Sequence[int]
    ) -> None:
        found = sorted(self._types_in(folder), key=_place)
        require(
            len(found) > 0,
            str(folder),
            "hold corrupted copies (tepui corrupt DATASET --out FOLDER writes them)",
            "none",
        )
        self.folder = folder
        self.types = tuple(found if types is None else types)
        self.severities = tuple(severities)
        for name in self.types:
            require(name in found, "types", f"be among {found}", name)
        for severity in self.severities:
            right = severity in SEVERITIES
            require(right, "severities", "be integers from 1 to 5", severity)
        require(len(self) > 0, "types and severities", "not be empty", list(self))

    def __getitem__(self, key: Cell) -> Dataset[Any]:
        if key not in self:
            raise KeyError(f"key must be one of {list(self)}, got {key!r}")
        copy = self._cell(*key)
        if self.like is not None:
            place = f"{key[0]} at severity {key[1]} in {self.folder}"
            _check_samples(place, copy, self.like)
        return copy

    def __iter__(self) -> Iterator[Cell]:
        return ((name, level) for name in self.types for level in self.severities)

    def __len__(self) -> int:
        return len(self.types) * len(self.severities)

    def __contains__(self, key: object) -> bool:
        return key in list(self)

    @staticmethod
    @abstractmethod
    def _types_in(folder: Path) -> list[str]:
        """Return the corruptions that a folder holds."""

    @abstractmethod
    def _cell(self, name: str, severity: int) -> Arrays | ImageFiles:
        """Return one copy."""


class CorruptedArrays(CorruptedFiles):
    """Corrupted copies in ``.npy`` files.

    Args:
        folder: Where they lie.
        normalize: Applied to images as a model sees them.
        classes: Names of the classes.
        types: Names of the corruptions; all that are there by default.
        severities: Which of the severities 1 to 5.

    Raises:
        FileNotFoundError: If there are no labels.
        ValueError: If a file is truncated, of another size or no array of bytes.
    """

    def __init__(
        self,
        folder: str | Path,
        normalize: Normalize | None = None,
        classes: tuple[str, ...] = (),
        types: Sequence[str] | None = None,
        severities: Sequence[int] = SEVERITIES,
    ) -> None:
        super().__init__(Path(folder), types, severities)
        self.normalize, self.classes = normalize, classes
        labels = _opened(self.folder / "labels.npy")
        right = labels.ndim == 1 and labels.dtype.kind in "iu" and not len(labels) % 5
        described = f"{labels.dtype} of shape {labels.shape}"
        rule = "hold the labels repeated five times"
        require(right, str(self.folder / "labels.npy"), rule, described)
        self._labels = torch.from_numpy(labels.astype(np.int64))
        if classes:
            high = int(self._labels.max())
            require(high < len(classes), "labels", f"be below {len(classes)}", high)

    @staticmethod
    def _types_in(folder: Path) -> list[str]:
        return [p.stem for p in folder.glob("*.npy") if p.stem != "labels"]

    def _cell(self, name: str, severity: int) -> Arrays:
        path = self.folder / f"{name}.npy"
        images = _opened(path)
        rows = len(self._labels)
        right = images.dtype == np.uint8 and images.ndim == 4 and len(images) == rows
        described = f"{images.dtype} of shape {images.shape}"
        rule = f"hold bytes of shape ({rows}, height, width, channels)"
        require(right, str(path), rule, described)
        part = slice((severity - 1) * rows // 5, severity * rows // 5)
        pixels = np.array(images[part].transpose(0, 3, 1, 2), order="C")
        labels = self._labels[part]
        return Arrays(torch.from_numpy(pixels), labels, self.normalize, self.classes)


class CorruptedFolders(CorruptedFiles):
    """Corrupted copies in folders ``corruption/severity/class``.

    Args:
        folder: Where they lie.
        classes: Names of the folders of the classes, in the order of their numbers.
        normalize: Applied to images as a model sees them.
        frame: What images are brought to; None keeps their size.
        gray: Read one channel of gray in place of three of color.
        types: Names of the corruptions; all that are there by default.
        severities: Which of the severities 1 to 5.

    Raises:
        ValueError: If there are no corruptions.
    """

    def __init__(
        self,
        folder: str | Path,
        classes: Sequence[str],
        normalize: Normalize | None = None,
        frame: Frame | None = None,
        gray: bool = False,
        types: Sequence[str] | None = None,
        severities: Sequence[int] = SEVERITIES,
    ) -> None:
        super().__init__(Path(folder), types, severities)
        self.classes, self.normalize = tuple(classes), normalize
        self.frame, self.gray = frame, gray

    @staticmethod
    def _types_in(folder: Path) -> list[str]:
        folders = (path for path in folder.iterdir() if path.is_dir())
        return [path.name for path in folders if (path / "1").is_dir()]

    def _cell(self, name: str, severity: int) -> ImageFiles:
        numbers = {each: number for number, each in enumerate(self.classes)}
        folder = self.folder / name / str(severity)
        folders = class_folders(folder)
        classes = len(self.classes)
        require(
            len(folders) == classes,
            str(folder),
            f"hold {classes} classes",
            len(folders),
        )
        samples = zip(*labeled(folders, numbers), strict=True)
        ordered = sorted(samples, key=lambda sample: sample[0].name)
        return ImageFiles(
            [file for file, _ in ordered],
            [label for _, label in ordered],
            frame=self.frame,
            gray=self.gray,
            normalize=self.normalize,
            classes=self.classes,
        )


def corrupted_files(
    folder: str | Path,
    like: Arrays | ImageFiles,
    types: Sequence[str] | None = None,
    severities: Sequence[int] = SEVERITIES,
) -> CorruptedFiles:
    """Return the corrupted copies in a folder, in either layout.

    Args:
        folder: Where they lie.
        like: The clean test set: its normalization, classes and size of images. Each
            copy must have as many samples, images of the same shape and the same
            targets; a manifest by :func:`tepui.data.write_corrupted`, the same images.
        types: Names of the corruptions; all that are there by default.
        severities: Which of the severities 1 to 5.

    Returns:
        A mapping from ``(corruption, severity)`` to data sets.

    Raises:
        FileNotFoundError: If the folder is not there.
        ValueError: If it holds no corrupted copies, or copies of something else; the
            samples of a copy are compared when it is read.
    """
    path = Path(folder)
    if not path.is_dir():
        raise FileNotFoundError(f"{path} must be a folder of corrupted copies")
    copies = _in_layout(path, like, types, severities)
    _check_manifest(path, like)
    copies.like = like
    return copies


def _in_layout(
    path: Path,
    like: Arrays | ImageFiles,
    types: Sequence[str] | None,
    severities: Sequence[int],
) -> CorruptedFiles:
    if any(path.glob("*.npy")):
        return CorruptedArrays(path, like.normalize, like.classes, types, severities)
    framed = like.frame if isinstance(like, ImageFiles) else None
    # Copies are made of images that were cut already: no margin is left to cut.
    frame = None if framed is None else Frame(framed.size)
    image = like[0][0]
    return CorruptedFolders(
        path,
        like.classes or _numbered(like),
        like.normalize,
        frame,
        isinstance(image, Tensor) and image.shape[:1] == (1,),
        types,
        severities,
    )


def _check_manifest(folder: Path, like: Arrays | ImageFiles) -> None:
    """Check that the images the copies were made of are those of the test set."""
    manifest = folder / MANIFEST
    held = like.held if isinstance(like, ImageFiles) else like
    if not manifest.is_file() or held is None or not isinstance(held.inputs, Tensor):
        return
    known = read_json(manifest)
    made_of = known.get("images") if isinstance(known, dict) else None
    expected = digest(held.inputs, held.targets)
    rule = f"hold copies of the test set, whose images have the hash {expected}"
    require(made_of == expected, str(folder), rule, made_of)


def _check_samples(
    place: str, copy: Arrays | ImageFiles, like: Arrays | ImageFiles
) -> None:
    """Check that a copy has the samples of the test set.

    Files in folders have no order of their own, so that there only the number of
    samples of each class is compared.
    """
    rule = f"have as many samples as the test set ({len(like)})"
    require(len(copy) == len(like), place, rule, len(copy))
    shape, expected = _shape(copy), _shape(like)
    rule = f"hold images of the test set's shape {expected}"
    require(shape == expected, place, rule, shape)
    found, targets = copy.targets.cpu(), like.targets.cpu()
    rule = "have the test set's targets"
    if isinstance(copy, ImageFiles):
        found, targets = found.sort().values, targets.sort().values
        rule += " in any order"
    wrong = (found != targets).nonzero()[:, 0].tolist()
    require(not wrong, place, rule, f"{len(wrong)} others")


def _shape(data: Arrays | ImageFiles) -> tuple[int, ...] | None:
    inputs = data[0][0]
    return tuple(inputs.shape) if isinstance(inputs, Tensor) else None


def _numbered(like: Arrays | ImageFiles) -> tuple[str, ...]:
    """Return names for classes that have none."""
    return tuple(str(number) for number in range(int(like.targets.max()) + 1))


def _place(name: str) -> tuple[int, str]:
    """Return a sort key: known corruptions first, in their usual order."""
    known = list(CORRUPTIONS)
    return (known.index(name) if name in known else len(known), name)


def _opened(path: Path) -> npt.NDArray[Any]:
    """Return a memory-mapped array; arrays of objects are refused."""
    require_file(path)
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a damaged file fails in any way it likes
        raise ValueError(f"{path} must be a valid .npy file: {error}") from error
    return array
