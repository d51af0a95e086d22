"""The released corrupted test sets of CIFAR, TinyImageNet and ImageNet.

Sets made by ``tepui corrupt`` have the same layouts; see
:mod:`tepui.data.files.corrupted_files`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, final

from tepui.core.checks import require
from tepui.data.corruptions.copies import SEVERITIES
from tepui.data.files.corrupted_files import CorruptedArrays, CorruptedFolders
from tepui.data.files.installing import located
from tepui.data.files.sources import Download, Source
from tepui.data.image_files import IMAGENET, Frame, class_folders
from tepui.data.sets.cifar import CIFAR10, CIFAR100
from tepui.data.sets.imagenet import CLASSES as IMAGENET_CLASSES
from tepui.data.sets.imagenet import FRAME
from tepui.data.sets.tiny_imagenet import CLASSES as TINY_CLASSES
from tepui.data.sets.tiny_imagenet import TinyImageNet


@final
class CIFAR10C(CorruptedArrays):
    """CIFAR-10's test images under 19 corruptions at five severities.

    Args:
        root: The data folder, or the set's own; see :mod:`tepui.data.files.sources`.
        download: Fetch the set if it is not there.
        types: Names of the corruptions; all that are there by default.
        severities: Which of the severities 1 to 5.

    Raises:
        FileNotFoundError: If it is not there; the message says how to get it.
        ValueError: If a file is truncated, foreign or of another size.
    """

    source: ClassVar[Source] = Source(
        about="CIFAR-10-C, CIFAR-10's test images under 19 corruptions",
        folders=("CIFAR-10-C",),
        downloads=(
            Download(
                "https://zenodo.org/records/2535967/files/CIFAR-10-C.tar",
                "md5:56bf5dcef84df0e2308c6dcbcbbd8499",
                "Zenodo",
                2_918_000_000,
            ),
        ),
    )

    def __init__(
        self,
        root: str | Path | None = None,
        download: bool = False,
        types: Sequence[str] | None = None,
        severities: Sequence[int] = SEVERITIES,
    ) -> None:
        folder = located("CIFAR10C", self.source, root, download)
        super().__init__(folder, CIFAR10.normalization, (), types, severities)


@final
class CIFAR100C(CorruptedArrays):
    """CIFAR-100's test images under 19 corruptions at five severities.

    Args:
        root: The data folder, or the set's own; see :mod:`tepui.data.files.sources`.
        download: Fetch the set if it is not there.
        types: Names of the corruptions; all that are there by default.
        severities: Which of the severities 1 to 5.

    Raises:
        FileNotFoundError: If it is not there; the message says how to get it.
        ValueError: If a file is truncated, foreign or of another size.
    """

    source: ClassVar[Source] = Source(
        about="CIFAR-100-C, CIFAR-100's test images under 19 corruptions",
        folders=("CIFAR-100-C",),
        downloads=(
            Download(
                "https://zenodo.org/records/3555552/files/CIFAR-100-C.tar",
                "md5:11f0ed0f1191edbf9fa23466ae6021d3",
                "Zenodo",
                2_918_000_000,
            ),
        ),
    )

    def __init__(
        self,
        root: str | Path | None = None,
        download: bool = False,
        types: Sequence[str] | None = None,
        severities: Sequence[int] = SEVERITIES,
    ) -> None:
        folder = located("CIFAR100C", self.source, root, download)
        super().__init__(folder, CIFAR100.normalization, (), types, severities)


@final
class TinyImageNetC(CorruptedFolders):
    """TinyImageNet's test images under 15 corruptions at five severities.

    Args:
        root: The data folder, or the set's own; see :mod:`tepui.data.files.sources`.
        download: Fetch the set if it is not there.
        types: Names of the corruptions; all that are there by default.
        severities: Which of the severities 1 to 5.

    Raises:
        FileNotFoundError: If it is not there; the message says how to get it.
        ValueError: If a file is truncated, foreign or of another size.
    """

    source: ClassVar[Source] = Source(
        about="Tiny-ImageNet-C, TinyImageNet's test images under 15 corruptions",
        folders=("Tiny-ImageNet-C",),
        downloads=(
            Download(
                "https://zenodo.org/records/8206060/files/Tiny-ImageNet-C.tar",
                "md5:f9c9a9dbdc11469f0b850190f7ad8be1",
                "Zenodo",
                1_795_000_000,
            ),
        ),
    )

    def __init__(
        self,
        root: str | Path | None = None,
        download: bool = False,
        types: Sequence[str] | None = None,
        severities: Sequence[int] = SEVERITIES,
    ) -> None:
        folder = located("TinyImageNetC", self.source, root, download)
        classes, normalize = _classes(folder, TINY_CLASSES), TinyImageNet.normalization
        super().__init__(folder, classes, normalize, types=types, severities=severities)


@final
class ImageNetC(CorruptedFolders):
    """ImageNet's validation images under corruptions, as they were released.

    They were cut to 224×224 pixels before they were corrupted, and stay as they are.

    Args:
        root: The data folder, or the set's own; see :mod:`tepui.data.files.sources`.
        download: It cannot be fetched and must be placed by hand; true changes
            nothing.
        types: Names of the corruptions; all that are there by default.
        severities: Which of the severities 1 to 5.

    Raises:
        FileNotFoundError: If it is not there; the message says how to get it.
        ValueError: If a file is truncated, foreign or of another size.
    """

    source: ClassVar[Source] = Source(
        about="ImageNet-C, ImageNet's validation images under corruptions",
        folders=("imagenet-c",),
        by_hand=(
            "Place it by hand (from zenodo.org/records/2235448), such as "
            "imagenet-c/fog/1/n01440764."
        ),
    )

    def __init__(
        self,
        root: str | Path | None = None,
        download: bool = False,
        types: Sequence[str] | None = None,
        severities: Sequence[int] = SEVERITIES,
    ) -> None:
        folder = located("ImageNetC", self.source, root, download)
        classes = _classes(folder, IMAGENET_CLASSES)
        frame = Frame(FRAME.size)
        super().__init__(folder, classes, IMAGENET, frame, False, types, severities)


def _classes(folder: Path, number: int) -> tuple[str, ...]:
    """Return the classes of the first copy, which every other must have too."""
    first = next(iter(sorted(folder.glob("*/1"))), folder)
    names = tuple(item.name for item in class_folders(first))
    require(len(names) == number, str(first), f"hold {number} classes", len(names))
    return names
