"""Your own images: one folder per class, or all in a folder without labels.

``path/train/CLASS/…`` and ``path/test/CLASS/…`` (or ``val`` instead of ``test``) are
the two parts. Without such folders, ``path/CLASS/…`` holds all images and a fixed fifth
of each class is the test part: the images whose names come first in a random order, so
that a new image moves few others. A class, and an image, may be a link.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, final, get_args

from tepui.core.checks import one_of, require
from tepui.core.seeding import derive
from tepui.data.arrays import Normalize
from tepui.data.image_files import (
    IMAGENET,
    Frame,
    ImageFiles,
    class_folders,
    files_at,
    labeled,
)
from tepui.data.labels import NO_LABEL

TEST_SHARE = 0.2
TESTS = ("test", "val")
Part = Literal["split", "all"]


@final
class ImageFolder(ImageFiles):
    """Images in one folder per class, for training and for test.

    Classes are numbered in the order of their names. Images become color images.

    Args:
        path: The folder.
        train: The training part if true, else the test part.
        size: Side of the images in pixels: the shorter side is scaled to it and a
            square is cut from the center. None keeps the images as they are; they must
            then all have the same size.
        mean: What is subtracted from each channel; ImageNet's by default.
        std: What each channel is divided by; ImageNet's by default.
        part: ``"split"``: the training or the test part, as ``train`` says. ``"all"``:
            every image, for data that are only tested on, such as a natural shift.

    Raises:
        FileNotFoundError: If a folder is missing.
        ValueError: If a class has no images, or the test part has a class that the
            training part lacks.
    """

    def __init__(
        self,
        path: str | Path,
        train: bool = True,
        size: int | None = None,
        mean: tuple[float, ...] = IMAGENET.mean,
        std: tuple[float, ...] = IMAGENET.std,
        part: Part = "split",
    ) -> None:
        one_of("part", part, get_args(Part))
        folder = Path(path)
        parts = part_folders(folder)
        names = [item.name for item in class_folders(parts[0])]
        numbers = {name: number for number, name in enumerate(names)}
        for item in class_folders(parts[-1]):
            rule = f"be one of the {len(names)} classes of {parts[0]}"
            require(item.name in numbers, str(item), rule, item.name)
        taken = parts if part == "all" else parts[:1] if train else parts[-1:]
        folders = [item for chosen in taken for item in class_folders(chosen)]
        files, labels = labeled(folders, numbers)
        if parts == (folder,) and part == "split":
            names_below = [file.relative_to(folder).as_posix() for file in files]
            keys = [derive(0, "image folder", name) for name in names_below]
            chosen = fifth_of(labels, keys)
            kept = [row for row in range(len(files)) if (row in chosen) != train]
            rule = "leave at least one image in each part"
            require(len(kept) > 0, str(folder), rule, f"{len(files)} images")
            files = [files[row] for row in kept]
            labels = [labels[row] for row in kept]
        super().__init__(
            files,
            labels,
            frame=None if size is None else Frame(size),
            normalize=Normalize(mean, std),
            classes=tuple(names),
        )


def part_folders(folder: Path) -> tuple[Path, ...]:
    """Return the folders of the training and the test part, or one folder for both."""
    if not folder.is_dir():
        raise FileNotFoundError(f"path must be a folder of images, got {folder}")
    train = folder / "train"
    if not train.is_dir():
        return (folder,)
    tests = [folder / name for name in TESTS if (folder / name).is_dir()]
    if not tests:
        raise FileNotFoundError(f"{folder} must hold test or val beside train")
    return train, tests[0]


def fifth_of(groups: Sequence[object], keys: Sequence[int]) -> set[int]:
    """Return a fifth of each group of rows: those with the smallest keys."""
    by_group: dict[object, list[int]] = {}
    for row, group in enumerate(groups):
        by_group.setdefault(group, []).append(row)
    return {
        row
        for rows in by_group.values()
        for row in sorted(rows, key=keys.__getitem__)[: round(TEST_SHARE * len(rows))]
    }


@final
class UnlabeledFolder(ImageFiles):
    """All images in a folder and below it, without labels.

    Args:
        path: The folder.
        size: Side of the images in pixels, as in :class:`tepui.data.ImageFolder`.

    Raises:
        FileNotFoundError: If the folder is missing.
        ValueError: If it holds no images.
    """

    def __init__(self, path: str | Path, size: int | None = None) -> None:
        files = files_at(Path(path))
        frame = None if size is None else Frame(size)
        super().__init__(files, [NO_LABEL] * len(files), frame=frame)
