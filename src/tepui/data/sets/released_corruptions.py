"""The released corrupted test sets of CIFAR, TinyImageNet and ImageNet.

All take ``root``, the data folder or the set's own (see
:mod:`tepui.data.published`); ``download``, whether to download a missing set;
``types``, names of corruptions (all that are there by default); and ``severities``,
which of 1 to 5. A missing set raises a ``FileNotFoundError`` that says how to get it; a
file that is truncated, foreign or of the wrong size, a ``ValueError``.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, final

from tepui.core.checks import require
from tepui.data.arrays import Normalize
from tepui.data.corruptions.copies import SEVERITIES
from tepui.data.corruptions.files import CorruptedArrays, CorruptedFolders
from tepui.data.image_files import IMAGENET, Frame, class_folders
from tepui.data.published import Download, Origin, located
from tepui.data.sets import imagenet
from tepui.data.sets.cifar import CIFAR10, CIFAR100


def _origin(name: str, record: int, known_hash: str, size: int) -> Origin:
    url = f"https://zenodo.org/records/{record}/files/{name}.tar"
    return Origin((name,), (Download(url, known_hash, size),))


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
        # The classes of the first copy, which all others must have too.
        first = min(folder.glob("*/1"), default=folder)
        classes = [item.name for item in class_folders(first)]
        rule = f"hold {self.num_classes} classes"
        require(len(classes) == self.num_classes, str(first), rule, len(classes))
        form = self.normalization, self.released_frame
        super().__init__(folder, classes, *form, types=types, severities=severities)


@final
class CIFAR10C(_ReleasedArrays):
    """CIFAR-10-C, CIFAR-10's test images under 19 corruptions at five severities."""

    origin = _origin(
        "CIFAR-10-C",
        2535967,
        "sha256:c72763e101c723b7c507b96205f7e938912a5d587376173b825850cf3cb876a7",
        2_918_000_000,
    )
    normalization = CIFAR10.normalization


@final
class CIFAR100C(_ReleasedArrays):
    """CIFAR-100-C, CIFAR-100's test images under 19 corruptions at five severities."""

    origin = _origin(
        "CIFAR-100-C",
        3555552,
        "sha256:30ee6543a1bfd049fa33834b7c1ada301e7064b7fbe8fc38340eb8b62ced4b33",
        2_918_000_000,
    )
    normalization = CIFAR100.normalization


@final
class TinyImageNetC(_ReleasedFolders):
    """Tiny-ImageNet-C, TinyImageNet's test images under 15 corruptions."""

    origin = _origin(
        "Tiny-ImageNet-C",
        8206060,
        "md5:f9c9a9dbdc11469f0b850190f7ad8be1",
        1_795_000_000,
    )
    normalization = imagenet.TinyImageNet.normalization
    num_classes = imagenet.TINY_CLASSES


@final
class ImageNetC(_ReleasedFolders):
    """ImageNet-C, ImageNet's validation images under corruptions.

    They were cropped to 224×224 pixels before they were corrupted, and are not cropped
    again. The set must be placed by hand.
    """

    origin = Origin(
        ("imagenet-c",),
        by_hand="Place it by hand (from zenodo.org/records/2235448), such as "
        "imagenet-c/fog/1/n01440764.",
    )
    normalization = IMAGENET
    num_classes = imagenet.CLASSES
    released_frame = Frame(imagenet.FRAME.size)
