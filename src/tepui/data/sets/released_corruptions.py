"""The released corrupted test sets of CIFAR, TinyImageNet and ImageNet.

All take the same arguments: ``root``, the data folder or the set's own (see
:mod:`tepui.data.files.origins`); ``download``, whether to download a set that is not
there; ``types``, names of corruptions (all that are there by default); ``severities``,
which of 1 to 5. A set that is absent raises a ``FileNotFoundError`` that says how to
get it, a file that is truncated, foreign or of another size a ``ValueError``.

Sets made by ``tepui corrupt`` have the same layouts; see
:mod:`tepui.data.files.corrupted_files`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, final

from tepui.core.checks import require
from tepui.data.arrays import Normalize
from tepui.data.corruptions.copies import SEVERITIES
from tepui.data.files.corrupted_files import CorruptedArrays, CorruptedFolders
from tepui.data.files.installing import located
from tepui.data.files.origins import Download, Origin
from tepui.data.image_files import IMAGENET, Frame, class_folders
from tepui.data.sets.cifar import CIFAR10, CIFAR100
from tepui.data.sets.imagenet import CLASSES as IMAGENET_CLASSES
from tepui.data.sets.imagenet import FRAME
from tepui.data.sets.tiny_imagenet import CLASSES as TINY_CLASSES
from tepui.data.sets.tiny_imagenet import TinyImageNet


def _origin(name: str, about: str, record: int, md5: str, size: int) -> Origin:
    url = f"https://zenodo.org/records/{record}/files/{name}.tar"
    download = Download(url, f"md5:{md5}", "Zenodo", size)
    return Origin(f"{name}, {about}", (name,), (download,))


class _ReleasedArrays(CorruptedArrays):
    origin: ClassVar[Origin]
    normalization: ClassVar[Normalize]

    def __init__(
        self,
        root: str | Path | None = None,
        download: bool = False,
        types: Sequence[str] | None = None,
        severities: Sequence[int] = SEVERITIES,
    ) -> None:
        folder = located(type(self).__name__, self.origin, root, download)
        super().__init__(folder, self.normalization, (), types, severities)


@final
class CIFAR10C(_ReleasedArrays):
    """CIFAR-10's test images under 19 corruptions at five severities."""

    origin = _origin(
        "CIFAR-10-C",
        "CIFAR-10's test images under 19 corruptions",
        2535967,
        "56bf5dcef84df0e2308c6dcbcbbd8499",
        2_918_000_000,
    )
    normalization = CIFAR10.normalization


@final
class CIFAR100C(_ReleasedArrays):
    """CIFAR-100's test images under 19 corruptions at five severities."""

    origin = _origin(
        "CIFAR-100-C",
        "CIFAR-100's test images under 19 corruptions",
        3555552,
        "11f0ed0f1191edbf9fa23466ae6021d3",
        2_918_000_000,
    )
    normalization = CIFAR100.normalization


class _ReleasedFolders(CorruptedFolders):
    origin: ClassVar[Origin]
    normalization: ClassVar[Normalize]
    num_classes: ClassVar[int]
    released_frame: ClassVar[Frame | None] = None

    def __init__(
        self,
        root: str | Path | None = None,
        download: bool = False,
        types: Sequence[str] | None = None,
        severities: Sequence[int] = SEVERITIES,
    ) -> None:
        folder = located(type(self).__name__, self.origin, root, download)
        super().__init__(
            folder,
            _classes(folder, self.num_classes),
            self.normalization,
            self.released_frame,
            types=types,
            severities=severities,
        )


@final
class TinyImageNetC(_ReleasedFolders):
    """TinyImageNet's test images under 15 corruptions at five severities."""

    origin = _origin(
        "Tiny-ImageNet-C",
        "TinyImageNet's test images under 15 corruptions",
        8206060,
        "f9c9a9dbdc11469f0b850190f7ad8be1",
        1_795_000_000,
    )
    normalization = TinyImageNet.normalization
    num_classes = TINY_CLASSES


@final
class ImageNetC(_ReleasedFolders):
    """ImageNet's validation images under corruptions, as they were released.

    They were cut to 224×224 pixels before they were corrupted, and stay as they are.
    The set must be placed by hand.
    """

    origin = Origin(
        "ImageNet-C, ImageNet's validation images under corruptions",
        ("imagenet-c",),
        by_hand="Place it by hand (from zenodo.org/records/2235448), such as "
        "imagenet-c/fog/1/n01440764.",
    )
    normalization = IMAGENET
    num_classes = IMAGENET_CLASSES
    released_frame = Frame(FRAME.size)


def _classes(folder: Path, number: int) -> tuple[str, ...]:
    """Return the classes of the first copy, which every other must have too."""
    first = next(iter(sorted(folder.glob("*/1"))), folder)
    names = tuple(item.name for item in class_folders(first))
    require(len(names) == number, str(first), f"hold {number} classes", len(names))
    return names
