"""Corrupted test sets on disk, read and written in the two published layouts.

Two layouts hold a test set under several corruptions at severities 1 to 5: one ``.npy``
file per corruption (CIFAR-10-C), bytes ``(5·samples, height, width, channels)`` with
the rows of severity 1 first, beside ``labels.npy`` of the same length; or folders
``corruption/severity/class`` of images (Tiny-ImageNet-C, ImageNet-C). Either is a
mapping from ``(corruption, severity)`` to a data set that is read at each access. In
the layout ``folders``, images are JPEG files of quality 85, so that those read back are
not quite those written.

References:
    Hendrycks and Dietterich (2019), Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tepui.core.checks import one_of, require
from tepui.core.lease import is_free
from tepui.core.replacing import writing
from tepui.core.storage import read_document, write_document
from tepui.data.arrays import Arrays, Normalize
from tepui.data.arrays_on_disk import described, opened_array
from tepui.data.corruptions.apply import CORRUPTIONS
from tepui.data.corruptions.copies import SEVERITIES, Copies, Corrupted
from tepui.data.identity import samples_hash
from tepui.data.image_files import (
    Frame,
    ImageFiles,
    class_folders,
    image_shape,
    labeled,
)
from tepui.data.published import (
    Download,
    Origin,
    located,
    staged,
    write_record,
)

Layout = Literal["arrays", "folders"]
MANIFEST = "corruptions.json"
LABELS = "labels.npy"
_QUALITY = 85
KIND = "corruptions"


def write_corrupted(
    copies: Corrupted, out: str | Path, *, layout: Layout = "arrays"
) -> None:
    """Write corrupted copies to a folder, which appears whole or not at all.

    Args:
        copies: From :func:`tepui.data.corrupted`, with all five severities.
        out: The folder.
        layout: ``"arrays"`` or ``"folders"``.

    Raises:
        FileExistsError: If ``out`` is not empty.
        ValueError: If a severity is missing, or images or classes do not suit the
            layout.
    """
    one_of("layout", layout, get_args(Layout))
    folder = Path(out)
    rule = "be 1 to 5"
    require(copies.severities == SEVERITIES, "severities", rule, copies.severities)
    named = Path(LABELS).stem not in copies.names
    require(named, "copies", f"be called otherwise than {LABELS}", [*copies.names])
    classes = _class_folders(copies.dataset) if layout == "folders" else ()
    if not is_free(folder):
        raise FileExistsError(f"{folder} is not empty; choose another folder")
    with writing(folder), staged(folder) as stage:
        stage.mkdir()
        if layout == "arrays":
            _write_arrays(copies, stage)
        for (name, severity), copy in copies.items() if classes else ():
            _write_folder(copy, stage / name / str(severity), classes)
        images = {"layout": layout, "images": _hash(copies.dataset)}
        how = {"strength": copies.strength, "seed": copies.seed}
        write_document(stage / MANIFEST, KIND, images | how)
        write_record(stage, {"manifest": MANIFEST})


def _hash(dataset: Arrays) -> str:
    return samples_hash(dataset.inputs, dataset.targets)


def _write_arrays(copies: Corrupted, folder: Path) -> None:
    labels = copies.dataset.targets.cpu().numpy()
    np.save(folder / LABELS, np.tile(labels, len(SEVERITIES)))
    assert isinstance(copies.dataset.inputs, Tensor)
    samples, channels, height, width = copies.dataset.inputs.shape
    shape = (len(SEVERITIES) * samples, height, width, channels)
    about = {"descr": "|u1", "fortran_order": False, "shape": shape}
    for name in copies.names:
        with (folder / f"{name}.npy").open("wb") as stream:
            np.lib.format.write_array_header_1_0(stream, about)
            for severity in SEVERITIES:
                stream.write(_pictures(copies[name, severity]).data)


def _write_folder(copy: Arrays, folder: Path, classes: tuple[str, ...]) -> None:
    from PIL import Image

    for name in classes:
        (folder / name).mkdir(parents=True)
    labels = copy.targets.tolist()
    digits = len(str(len(labels) - 1))
    for number, picture in enumerate(_pictures(copy)):
        file = folder / classes[labels[number]] / f"{number:0{digits}d}.JPEG"
        gray = picture.shape[2] == 1
        image = Image.fromarray(picture[:, :, 0] if gray else picture)
        image.save(file, "JPEG", quality=_QUALITY)


def _pictures(copy: Arrays) -> NDArray[np.uint8]:
    assert isinstance(copy.inputs, Tensor)
    return copy.inputs.permute(0, 2, 3, 1).cpu().contiguous().numpy()


def numbered_classes(targets: Tensor) -> tuple[str, ...]:
    """Return names for classes that have none."""
    return tuple(str(label) for label in range(int(targets.max()) + 1))


def _class_folders(dataset: Arrays) -> tuple[str, ...]:
    """Return one folder name per class."""
    assert isinstance(dataset.inputs, Tensor)
    channels = dataset.inputs.shape[1]
    rule = "be arrays unless images have 1 or 3 channels"
    require(channels in (1, 3), "layout", rule, channels)
    names = dataset.classes or numbered_classes(dataset.targets)
    for name in names:
        plain = name == Path(name).name and name not in ("", ".", "..")
        require(plain, "classes", "be valid folder names", name)
    low, high = int(dataset.targets.min()), int(dataset.targets.max())
    rule = f"be arrays unless every image has one of {len(names)} classes"
    known = low >= 0 and high < len(names)
    require(known, "layout", rule, f"labels from {low} to {high}")
    return names


class CorruptedFiles(Copies[Arrays | ImageFiles]):
    """Corrupted copies of a test set, read from disk in either layout.

    Args:
        folder: Where they lie.
        classes: Names of the classes; in folders, those of the class folders in the
            order of their labels.
        normalize: Applied to images as a model sees them.
        frame: Size that images in folders are resized to; None keeps their size.
        gray: Read one gray channel of images in folders instead of three.
        types: Names of the corruptions; all that are there by default.
        severities: Which of the severities 1 to 5.

    Raises:
        FileNotFoundError: If the labels of arrays are missing.
        ValueError: If there are no corruptions, or a file is damaged.
    """

    like: Arrays | ImageFiles | None = None  # the clean test set, which copies match

    def __init__(
        self,
        folder: str | Path,
        classes: Sequence[str] = (),
        normalize: Normalize | None = None,
        frame: Frame | None = None,
        gray: bool = False,
        types: Sequence[str] | None = None,
        severities: Sequence[int] = SEVERITIES,
    ) -> None:
        self.folder, self.severities = Path(folder), tuple(severities)
        self.classes, self.normalize = tuple(classes), normalize
        self.frame, self.gray = frame, gray
        arrays = [path.stem for path in self.folder.glob("*.npy")]
        found = arrays or [path.parent.name for path in self.folder.glob("*/1")]
        present = sorted({*found} - {Path(LABELS).stem}, key=_usual_order)
        rule = "hold corrupted copies (tepui corrupt --out FOLDER writes them)"
        require(len(present) > 0, str(folder), rule, "none")
        self.types = tuple(present if types is None else types)
        known = {*self.types} <= {*present}
        require(known, "types", f"be among {present}", self.types)
        fits = {*self.severities} <= {*SEVERITIES}
        require(fits, "severities", "be integers from 1 to 5", self.severities)
        require(len(self) > 0, "types and severities", "not be empty", list(self))
        self._labels = self._labels_of_arrays() if arrays else None

    def _labels_of_arrays(self) -> Tensor:
        path = self.folder / LABELS
        labels = opened_array(path)
        fits = labels.ndim == 1 and labels.dtype.kind in "iu" and not len(labels) % 5
        rule = "hold the labels repeated five times"
        require(fits, str(path), rule, described(labels))
        return torch.from_numpy(labels.astype(np.int64))

    def _copy(self, name: str, severity: int) -> Arrays | ImageFiles:
        arrays = self._labels is not None
        copy = (self._array if arrays else self._images)(name, severity)
        if self.like is not None:
            place = f"{name} at severity {severity} in {self.folder}"
            _check_samples(place, copy, self.like)
        return copy

    def _array(self, name: str, severity: int) -> Arrays:
        assert self._labels is not None
        path, rows = self.folder / f"{name}.npy", len(self._labels)
        images = opened_array(path)
        fits = images.dtype == np.uint8 and images.ndim == 4 and len(images) == rows
        rule = f"hold bytes of shape ({rows}, height, width, channels)"
        require(fits, str(path), rule, described(images))
        part = slice((severity - 1) * rows // 5, severity * rows // 5)
        pixels = np.array(images[part].transpose(0, 3, 1, 2), order="C")
        labels = self._labels[part]
        return Arrays(torch.from_numpy(pixels), labels, self.normalize, self.classes)

    def _images(self, name: str, severity: int) -> ImageFiles:
        numbers = {label: number for number, label in enumerate(self.classes)}
        folder = self.folder / name / str(severity)
        folders = class_folders(folder)
        rule = f"hold {len(numbers)} classes"
        require(len(folders) == len(numbers), str(folder), rule, len(folders))
        samples = zip(*labeled(folders, numbers), strict=True)
        ordered = sorted(samples, key=lambda sample: sample[0].name)
        files, labels = zip(*ordered, strict=True)
        return ImageFiles(
            files,
            labels,
            frame=self.frame,
            gray=self.gray,
            normalize=self.normalize,
            classes=self.classes,
        )


def released_at(name: str, record: int, known_hash: str, size: int) -> Origin:
    """Return where a released set comes from."""
    url = f"https://zenodo.org/records/{record}/files/{name}.tar"
    return Origin((name,), (Download(url, known_hash, size),))


class Released(CorruptedFiles):
    """A released set, normalized as its clean images.

    Args:
        root: The data folder, or the set's own; see :mod:`tepui.data.published`.
        download: Whether to download a missing set.
        types: Names of corruptions; all that are there by default.
        severities: Which of 1 to 5.
    """

    origin: ClassVar[Origin]
    normalization: ClassVar[Normalize]
    num_classes: ClassVar[int] = 0  # of images in folders
    released_frame: ClassVar[Frame | None] = None

    def __init__(
        self,
        root: str | Path | None = None,
        download: bool = False,
        types: Sequence[str] | None = None,
        severities: Sequence[int] = SEVERITIES,
    ) -> None:
        folder = located(type(self).__name__, self.origin, root, download)
        classes: list[str] = []
        if self.num_classes:
            # The classes of the first copy, which all others must have too.
            first = min(folder.glob("*/1"), default=folder)
            classes = [item.name for item in class_folders(first)]
            rule = f"hold {self.num_classes} classes"
            fits = len(classes) == self.num_classes
            require(fits, str(first), rule, len(classes))
        form = self.normalization, self.released_frame
        super().__init__(folder, classes, *form, types=types, severities=severities)


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
            targets; if :func:`tepui.data.write_corrupted` made the copies, it must have
            made them from the same images.
        types: Names of the corruptions; all that are there by default.
        severities: Which of the severities 1 to 5.

    Returns:
        A mapping from ``(corruption, severity)`` to data sets.

    Raises:
        FileNotFoundError: If the folder is missing.
        ValueError: If it holds no corrupted copies, or copies of something else; the
            samples of a copy are compared when it is read.
    """
    path = Path(folder)
    if not path.is_dir():
        raise FileNotFoundError(f"{path} must be a folder of corrupted copies")
    # Copies are made of images that were cut already: no margin is left to cut.
    framed = like.frame if isinstance(like, ImageFiles) else None
    frame = None if framed is None else Frame(framed.size)
    gray = (image_shape(like) or ())[:1] == (1,)
    arrays = any(path.glob("*.npy"))
    classes = like.classes or (() if arrays else numbered_classes(like.targets))
    form = classes, like.normalize, frame, gray
    copies = CorruptedFiles(path, *form, types, severities)
    _check_manifest(path, like)
    copies.like = like
    return copies


def _check_manifest(folder: Path, like: Arrays | ImageFiles) -> None:
    """Check that the images the copies were made of are those of the test set."""
    manifest = folder / MANIFEST
    held = like.held if isinstance(like, ImageFiles) else like
    if not manifest.is_file() or held is None or not isinstance(held.inputs, Tensor):
        return
    made_of, expected = read_document(manifest, KIND).get("images"), _hash(held)
    rule = f"hold copies of the test set, whose images have the hash {expected}"
    require(made_of == expected, str(folder), rule, made_of)


def _check_samples(
    place: str, copy: Arrays | ImageFiles, like: Arrays | ImageFiles
) -> None:
    """Check that a copy has the samples of the test set.

    Files in folders have no order, so that for them only the number of samples of each
    class is compared.
    """
    rule = f"have as many samples as the test set ({len(like)})"
    require(len(copy) == len(like), place, rule, len(copy))
    shape, expected = image_shape(copy), image_shape(like)
    rule = f"hold images of the test set's shape {expected}"
    require(shape == expected, place, rule, shape)
    labels, targets = copy.targets.cpu(), like.targets.cpu()
    rule = "have the test set's targets"
    if isinstance(copy, ImageFiles):
        labels, targets = labels.sort().values, targets.sort().values
        rule += " in any order"
    wrong = int((labels != targets).sum())
    require(wrong == 0, place, rule, f"{wrong} different ones")


def _usual_order(name: str) -> tuple[int, str]:
    """Return a sort key: tepui's corruptions first, in their usual order."""
    place = CORRUPTIONS.index(name) if name in CORRUPTIONS else len(CORRUPTIONS)
    return place, name
