"""Images in files, decoded when asked for or all at once into tensors.

A set whose images fit into memory as bytes is decoded once and then trains as fast as
any other held in tensors; a larger one is decoded sample by sample.
"""

import functools
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import different_names, require
from tepui.core.limits import check_limit
from tepui.core.storage import raw_bytes, read_text
from tepui.core.text import listed
from tepui.core.types import check_fields
from tepui.data.arrays import Arrays, Normalize
from tepui.data.published import require_file
from tepui.data.stored import StoredData

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = (
    *(".jpg", ".jpeg", ".png", ".bmp", ".gif"),
    *(".ppm", ".pgm", ".tif", ".tiff", ".webp"),
)
MEMORY = 8 * 2**30
IMAGENET = Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


class UnreadableImageError(ValueError):
    """A file holds no image, or a damaged one.

    Attributes:
        reasons: Those of a batch, or of a whole set that is held in memory, that cannot
            be read, each with the reason.
    """

    def __init__(self, message: str, reasons: Mapping[Path, str] | None = None) -> None:
        super().__init__(message)
        self.reasons = dict(reasons or {})


@dataclass(frozen=True)
class Frame:
    """The size that images of any size are resized and cropped to.

    Attributes:
        size: Side of the square that is cut from the center, in pixels.
        margin: The shorter side is scaled to this many times ``size`` first.
    """

    size: int
    margin: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.size > 0, "size", "be positive", self.size)
        require(self.margin >= 1, "margin", "be at least 1", self.margin)


class ImageFiles(StoredData):
    """A map-style data set of images in files.

    Args:
        files: The images, in order.
        targets: One label per image.
        frame: Size that the images are brought to; None keeps their size, which must
            then be the same for all.
        gray: Read one gray channel instead of three color channels.
        normalize: Applied to images as a model sees them.
        classes: Names of the classes.

    Attributes:
        files: The images, in order.
        targets: One label per image.
        classes: Names of the classes.
        streamed: Whether images are decoded batch by batch in any case, and never all
            held.
    """

    streamed = False

    def __init__(
        self,
        files: Sequence[Path],
        targets: Sequence[int] | Tensor,
        *,
        frame: Frame | None = None,
        gray: bool = False,
        normalize: Normalize | None = IMAGENET,
        classes: tuple[str, ...] = (),
    ) -> None:
        require(len(files) > 0, "files", "hold at least one image", len(files))
        rule = f"have one label per file ({len(files)})"
        require(len(targets) == len(files), "targets", rule, len(targets))
        labels = torch.as_tensor(targets)
        whole = not (labels.is_floating_point() or labels.is_complex())
        require(whole, "targets", "be integers", labels.dtype)
        different_names("classes", classes)
        self.files = tuple(files)
        self.targets = labels.to(torch.int64)
        self.classes = classes
        self.normalize = normalize
        self.frame = frame
        self.gray = gray

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Channels, height and width; None where only the files can tell."""
        channels = 1 if self.gray else 3
        return None if self.frame is None else (channels, *2 * (self.frame.size,))

    def raw(self, index: Tensor) -> Tensor:
        """Decode some of the images.

        Args:
            index: Their positions.

        Returns:
            Bytes ``(samples, channels, height, width)``.
        """
        files = [self.files[row] for row in index.tolist()]
        return torch.stack([*_decoded(files, self.frame, self.gray)])

    def subset(self, index: Tensor | Sequence[int]) -> Self:
        """Return some of the images, without reading them.

        Args:
            index: Their positions.

        Returns:
            A data set of the same kind, in the order of ``index``.
        """
        rows = torch.as_tensor(index)
        part = copy(self)
        vars(part).pop("held", None)
        part.files = tuple(self.files[row] for row in rows.tolist())
        part.targets = self.targets[rows]
        return part

    def in_batches(self) -> Self:
        """Return the same images for one pass, decoded batch by batch.

        Returns:
            A data set of the same kind that never holds all images.
        """
        part = copy(self)
        vars(part).pop("held", None)
        part.streamed = True
        return part

    def identity(self) -> dict[str, Any]:
        """Return a hash of names, sizes and labels, not of what the files contain.

        Returns:
            The hash, and how images are read.
        """
        digest = hashlib.sha256(raw_bytes(self.targets).numpy().data)
        for file in self.files:
            digest.update(f"{file.name} {file.stat().st_size}\n".encode())
        frame = None if self.frame is None else asdict(self.frame)
        return {"files": digest.hexdigest(), "frame": frame, "gray": self.gray}

    def location(self) -> dict[str, Any]:
        """Return a hash of places, sizes and times of change of the files.

        Returns:
            The hash, and how images are read.
        """
        digest = hashlib.sha256()
        for file in self.files:
            about = file.stat()
            known = (file.absolute(), about.st_size, about.st_mtime_ns, about.st_ino)
            digest.update(f"{known}\n".encode())
        return {**self.identity(), "places": digest.hexdigest()}

    @functools.cached_property
    def held(self) -> Arrays | None:
        """All images as bytes in tensors; None if that is too much for memory."""
        if self.streamed:
            return None
        first = decode(self.files[0], self.frame, self.gray)
        if len(self) * first.numel() > MEMORY:
            return None
        images = decode_all(self.files, self.frame, self.gray)
        return Arrays(images, self.targets, self.normalize, self.classes)


def image_shape(dataset: Dataset[Any]) -> tuple[int, ...] | None:
    """Return channels, height and width of a data set's images."""
    if isinstance(dataset, ImageFiles) and dataset.shape is not None:
        return dataset.shape
    first = dataset[0][0]
    image = isinstance(first, Tensor) and first.ndim == 3
    return tuple(first.shape) if image else None


def decode(path: Path, frame: Frame | None = None, gray: bool = False) -> Tensor:
    """Read an image as bytes ``(channels, height, width)``."""
    from PIL import Image

    require_file(path)
    try:
        with Image.open(path) as opened:
            check_limit("image_pixels", opened.width * opened.height, "image")
            image = _eight_bits(opened).convert("L" if gray else "RGB")
            if frame is not None:
                image = _framed(image, frame)
            pixels = torch.from_numpy(np.array(image))
            return pixels[None] if gray else pixels.permute(2, 0, 1).contiguous()
    except PermissionError:
        raise
    except Exception as error:  # a damaged file can fail in any way
        raise UnreadableImageError(f"{path} must be a valid image: {error}") from error


def unreadable(
    files: Sequence[Path], frame: Frame | None, gray: bool
) -> dict[Path, str]:
    """Return which images cannot be read, each with the reason."""
    try:
        for _ in _decoded(files, frame, gray):
            pass
    except UnreadableImageError as error:
        return error.reasons
    return {}


def _decoded(
    files: Sequence[Path], frame: Frame | None, gray: bool
) -> Iterator[Tensor]:
    """Yield images, using all processors.

    Those that cannot be read are named together at the end, the first ten with their
    reasons.
    """
    failed: dict[Path, str] = {}

    def read(file: Path) -> Tensor | None:
        try:
            return decode(file, frame, gray)
        except (UnreadableImageError, PermissionError) as error:
            failed[file] = str(error)
        return None

    first: Tensor | None = None
    with ThreadPoolExecutor(min(len(files), os.cpu_count() or 1)) as pool:
        for file, image in zip(files, pool.map(read, files), strict=True):
            if image is not None:
                first = image if first is None else first
                rule = f"have the shape {tuple(first.shape)} of others, or give a size"
                fits = first.shape == image.shape
                require(fits, str(file), rule, tuple(image.shape))
                yield image
    if failed:
        reasons = {file: failed[file] for file in files if file in failed}
        rule = f"be images that can be read, got {len(failed)} that cannot"
        several = f"files must {rule}:{listed([*reasons.values()])}"
        said = several if len(failed) > 1 else next(iter(reasons.values()))
        raise UnreadableImageError(said, reasons)


def _eight_bits(image: "Image.Image") -> "Image.Image":
    """Return an image of 16 bits scaled to 8, 65535 being white; others as they are."""
    from PIL import Image

    # Pillow reads PGM files of more than eight bits as integers up to 65535.
    if image.mode.startswith("I;16") or (image.mode, image.format) == ("I", "PPM"):
        scaled = (np.array(image).astype(np.int64) + 128) // 257
        return Image.fromarray(scaled.astype(np.uint8))
    rule = "be one of 8 or 16 bits (scale the pixels to that and save them as PNG)"
    require(image.mode not in ("I", "F"), "mode", rule, image.mode)
    return image


def decode_all(
    files: Sequence[Path], frame: Frame | None = None, gray: bool = False
) -> Tensor:
    """Read images into one tensor of bytes, using all processors."""
    images = torch.empty(0)
    for number, image in enumerate(_decoded(files, frame, gray)):
        if number == 0:
            images = torch.empty((len(files), *image.shape), dtype=torch.uint8)
        images[number] = image
    return images


def files_at(place: Path) -> list[Path]:
    """Return an image, or the images in a folder."""
    if place.is_dir():
        files = images_in(place)
        require(len(files) > 0, str(place), "hold images", "none")
        return files
    if not place.is_file():
        raise FileNotFoundError(f"no image or folder of images {place}")
    return [place]


def images_in(folder: Path) -> list[Path]:
    """Return the images in a folder and all below it, in the order of their names."""
    named = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    return sorted(path for path in named if path.is_file())


def class_folders(folder: Path) -> list[Path]:
    """Return the folders that each hold one class, in the order of their names."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} must be a folder with one folder per class")
    visible = (path for path in folder.iterdir() if not path.name.startswith("."))
    folders = sorted(path for path in visible if path.is_dir())
    got = "none" if folders or not images_in(folder) else "images without one"
    rule = f"hold one folder per class ({folder.name}/cat, {folder.name}/dog)"
    require(len(folders) > 0, str(folder), rule, got)
    return folders


def listed_classes(path: Path, num_classes: int) -> tuple[str, ...]:
    """Return the classes that a file lists, in sorted order."""
    require_file(path)
    names = sorted(read_text(path).split())
    fits = len(names) == len(set(names)) == num_classes
    require(fits, str(path), f"list {num_classes} classes", len(names))
    return tuple(names)


def labeled(
    folders: Iterable[Path], numbers: Mapping[str, int]
) -> tuple[list[Path], list[int]]:
    """Return the images in class folders with the number of each one's class."""
    files: list[Path] = []
    labels: list[int] = []
    for folder in folders:
        rule = f"be one of {len(numbers)} classes"
        require(folder.name in numbers, str(folder), rule, folder.name)
        images = images_in(folder)
        require(len(images) > 0, str(folder), "hold images", "none")
        files += images
        labels += [numbers[folder.name]] * len(images)
    return files, labels


def _framed(image: "Image.Image", frame: Frame) -> "Image.Image":
    """Scale the shorter side, then cut a square from the center."""
    from PIL import Image

    short = round(frame.size * frame.margin)
    scale = short / min(image.size)
    width, height = (max(short, round(side * scale)) for side in image.size)
    left, top = (width - frame.size) // 2, (height - frame.size) // 2
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    return resized.crop((left, top, left + frame.size, top + frame.size))
