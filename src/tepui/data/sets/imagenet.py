"""ImageNet, the test sets that share its classes, and TinyImageNet.

ImageNet's sets are placed by hand: one folder per class, named by its WordNet
identifier. A label is the position of that identifier among ImageNet's 1000 in sorted
order, and ``class_subset`` marks the classes that have a folder.

The labels of TinyImageNet's official test images are not public; as everywhere in the
field, the 10 000 validation images serve as the test part. They lie in ``val/images``
with their classes in ``val_annotations.txt``, or already sorted into one folder per
class.

References:
    Russakovsky et al. (2015), ImageNet Large Scale Visual Recognition Challenge, IJCV.
    Hendrycks et al. (2021), Natural Adversarial Examples, CVPR (ImageNet-A).
    Hendrycks et al. (2021), The Many Faces of Robustness, ICCV (ImageNet-R).
    Le and Yang (2015), Tiny ImageNet Visual Recognition Challenge, CS 231N.
"""

from pathlib import Path
from typing import ClassVar, final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.storage import read_text
from tepui.data.arrays import Normalize
from tepui.data.corruptions.files import Released, released_at
from tepui.data.image_files import (
    IMAGENET,
    Frame,
    ImageFiles,
    class_folders,
    decode_all,
    labeled,
    listed_classes,
)
from tepui.data.published import (
    Contents,
    Download,
    Origin,
    PublishedArrays,
    located,
)

CLASSES = 1000
FRAME = Frame(224, margin=256 / 224)


def _origin(folder: str, site: str, parts: str = "") -> Origin:
    by_hand = (
        f"Place it by hand (from {site}): {parts or folder}, one folder per class "
        "named by its WordNet identifier."
    )
    return Origin((folder,), by_hand=by_hand)


class _ClassFolders(ImageFiles):
    """Images in folders named by ImageNet's classes."""

    origin: ClassVar[Origin]
    class_subset: Tensor  # of all 1000 classes, those that have a folder

    def __init__(
        self, root: str | Path | None, part: str, download: bool, size: int
    ) -> None:
        own = located(type(self).__name__, self.origin, root, download)
        beside = ImageNet.origin.find(root) or own.parent / "imagenet"
        wnids = imagenet_wnids(own if part else beside)
        numbers = {wnid: number for number, wnid in enumerate(wnids)}
        folders = class_folders(own / part)
        files, labels = labeled(folders, numbers)
        frame = Frame(size, FRAME.margin)
        super().__init__(files, labels, frame=frame, classes=wnids)
        self.class_subset = torch.zeros(len(wnids), dtype=torch.bool)
        self.class_subset[[numbers[item.name] for item in folders]] = True


@final
class ImageNet(_ClassFolders):
    """ImageNet (ILSVRC 2012), 1000 classes.

    It has 1 281 167 training images; the 50 000 validation images are the test part.

    Args:
        root: The data folder, or the set's own; see :mod:`tepui.data.published`.
        train: The folder ``train`` if true, else ``val``.
        download: Has no effect: the set must be placed by hand.
        size: Side of the images in pixels, cut from the center of images whose shorter
            side is 8/7 of it.

    Raises:
        FileNotFoundError: If a folder is missing; the message says how to place it.
        ValueError: If a folder is empty or not that of a class.
    """

    origin: ClassVar[Origin] = _origin(
        "imagenet", "image-net.org", "imagenet/train and imagenet/val"
    )

    def __init__(
        self,
        root: str | Path | None = None,
        train: bool = True,
        download: bool = False,
        size: int = 224,
    ) -> None:
        super().__init__(root, "train" if train else "val", download, size)


class _TestOnly(_ClassFolders):
    """A test set for models trained on ImageNet.

    Args:
        root: The data folder; ImageNet's classes are looked up in it too.
        train: Must be false: there is a test part only.
        download: Has no effect: the set must be placed by hand.
        size: Side of the images in pixels, as for :class:`ImageNet`.

    Raises:
        FileNotFoundError: If a folder is missing; the message says how to place it.
        ValueError: If ``train`` is true, or a folder is not that of a class.
    """

    def __init__(
        self,
        root: str | Path | None = None,
        train: bool = False,
        download: bool = False,
        size: int = 224,
    ) -> None:
        rule = "be false, since there is only a test part"
        require(not train, "train", rule, train)
        super().__init__(root, "", download, size)


@final
class ImageNetA(_TestOnly):
    """ImageNet-A, 7500 natural images that fool classifiers, 200 classes.

    Arguments as for :class:`ImageNet`; ``train`` must be false.
    """

    origin = _origin("imagenet-a", "github.com/hendrycks/natural-adv-examples")


@final
class ImageNetR(_TestOnly):
    """ImageNet-R, 30 000 renditions (art, toys, sketches), 200 classes.

    Arguments as for :class:`ImageNet`; ``train`` must be false.
    """

    origin = _origin("imagenet-r", "github.com/hendrycks/imagenet-r")


def imagenet_wnids(folder: Path) -> tuple[str, ...]:
    """Return the identifiers of ImageNet's classes in sorted order."""
    if (folder / "wnids.txt").is_file():
        return listed_classes(folder / "wnids.txt", CLASSES)
    parts = [folder / name for name in ("val", "train") if (folder / name).is_dir()]
    if not parts:
        raise FileNotFoundError(
            f"{folder / 'wnids.txt'} must list the {CLASSES} WordNet identifiers "
            "of ImageNet's classes, or val beside it must hold their folders"
        )
    wnids = tuple(item.name for item in class_folders(parts[0]))
    require(len(wnids) == CLASSES, str(folder), f"name {CLASSES} classes", len(wnids))
    return wnids


TINY_CLASSES = 200


@final
class TinyImageNet(PublishedArrays):
    """TinyImageNet-200, 110 000 images of 64 px in 200 classes.

    Images are bytes of shape ``(samples, 3, 64, 64)``, labels the position of their
    class in the sorted list of WordNet identifiers, int64. Arguments as in
    :class:`tepui.data.published.PublishedArrays`.
    """

    origin = Origin(
        ("tiny-imagenet-200",),
        (
            Download(
                "https://cs231n.stanford.edu/tiny-imagenet-200.zip",
                "sha256:6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
                248_000_000,
            ),
        ),
    )
    normalization = Normalize((0.480, 0.448, 0.397), (0.276, 0.269, 0.282))
    shape = (3, 64, 64)
    num_samples: ClassVar[dict[bool, int]] = {True: 100_000, False: 10_000}

    def _read(self, folder: Path, train: bool) -> Contents:
        wnids = listed_classes(folder / "wnids.txt", TINY_CLASSES)
        numbers = {wnid: number for number, wnid in enumerate(wnids)}
        part = folder / ("train" if train else "val")
        if not train and (part / "val_annotations.txt").exists():
            files, labels = _annotated(part, numbers)
        else:
            files, labels = labeled(class_folders(part), numbers)
        return decode_all(files), torch.tensor(labels), wnids


def _annotated(folder: Path, numbers: dict[str, int]) -> tuple[list[Path], list[int]]:
    """Return the validation images with the classes of ``val_annotations.txt``."""
    files, labels = [], []
    path = folder / "val_annotations.txt"
    for line in read_text(path).splitlines():
        file, wnid, *_ = *line.split("\t"), "", ""
        rule = "name a file and its class on each line"
        require(wnid in numbers, str(path), rule, line)
        require(Path(file).name == file, str(path), "hold plain file names", file)
        files.append(folder / "images" / file)
        labels.append(numbers[wnid])
    return files, labels


@final
class TinyImageNetC(Released):
    """Tiny-ImageNet-C, TinyImageNet's test images under 15 corruptions."""

    origin = released_at(
        "Tiny-ImageNet-C",
        8206060,
        "md5:f9c9a9dbdc11469f0b850190f7ad8be1",
        1_795_000_000,
    )
    normalization = TinyImageNet.normalization
    num_classes = TINY_CLASSES


@final
class ImageNetC(Released):
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
    num_classes = CLASSES
    released_frame = Frame(FRAME.size)
