"""Your own images: one folder per class, or all in a folder without labels.

``path/train/CLASS/…`` and ``path/test/CLASS/…`` (or ``val`` instead of ``test``) are
the two parts. Without such folders, ``path/CLASS/…`` holds all images and a fixed fifth
of each class is the test part: the images whose names come first in a random order, so
that a new image moves few others. A folder that holds ``test`` (or ``val``) and no
other has a test part alone. Links to images and to folders are followed.
"""

from pathlib import Path
from typing import Literal, final, get_args

from tepui.core.checks import one_of, require
from tepui.core.seeding import derive
from tepui.data.arrays import Arrays, Normalize
from tepui.data.image_files import (
    IMAGENET,
    Frame,
    ImageFiles,
    class_folders,
    images_in,
    labeled,
)
from tepui.data.labels import NO_LABEL
from tepui.data.prepared_like import image_shape

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
        if parts[0] == tests_alone(folder) and train and part == "split":
            raise FileNotFoundError(f"{folder} must hold train beside {parts[0].name}")
        names = [item.name for item in class_folders(parts[0])]
        numbers = {name: number for number, name in enumerate(names)}
        for item in class_folders(parts[-1]):
            rule = f"be one of the {len(names)} classes of {parts[0]}"
            require(item.name in numbers, str(item), rule, item.name)
        chosen_parts = parts if part == "all" else (parts[0] if train else parts[-1],)
        folders = [item for chosen in chosen_parts for item in class_folders(chosen)]
        files, labels = labeled(folders, numbers)
        if parts == (folder,) and part == "split":
            chosen = _test_files(folder, files, labels)
            samples = zip(files, labels, strict=True)
            kept = [sample for sample in samples if (sample[0] in chosen) != train]
            rule = "leave at least one image in each part"
            require(len(kept) > 0, str(folder), rule, f"{len(files)} images")
            files, labels = map(list, zip(*kept, strict=True))
        super().__init__(
            files,
            labels,
            frame=None if size is None else Frame(size),
            normalize=Normalize(mean, std),
            classes=tuple(names),
        )


def part_folders(folder: Path) -> tuple[Path, ...]:
    """Return the folders of the training and the test part, or one folder for both.

    Of a test part alone its folder is returned.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"path must be a folder of images, got {folder}")
    if (alone := tests_alone(folder)) is not None:
        return (alone,)
    train = folder / "train"
    if not train.is_dir():
        return (folder,)
    tests = [folder / name for name in TESTS if (folder / name).is_dir()]
    if not tests:
        raise FileNotFoundError(f"{folder} must hold test or val beside train")
    return train, tests[0]


def tests_alone(folder: Path) -> Path | None:
    """Return the folder of a test part that stands alone, None of any other folder."""
    visible = [item for item in folder.iterdir() if not item.name.startswith(".")]
    inside = [item for item in visible if item.is_dir()]
    if len(inside) != 1 or inside[0].name not in TESTS:
        return None
    (tests,) = inside
    return tests if any(item.is_dir() for item in tests.iterdir()) else None


def _test_files(folder: Path, files: list[Path], labels: list[int]) -> set[Path]:
    """Return a fifth of each class, by names alone."""
    by_class: dict[int, list[Path]] = {}
    for file, label in zip(files, labels, strict=True):
        by_class.setdefault(label, []).append(file)

    def place(file: Path) -> int:
        return derive(0, "image folder", file.relative_to(folder).as_posix())

    return {
        file
        for group in by_class.values()
        for file in sorted(group, key=place)[: round(TEST_SHARE * len(group))]
    }


@final
class UnlabeledFolder(ImageFiles):
    """All images in a folder and below it, without labels.

    Args:
        path: The folder.
        size: Side of the images in pixels, as in :class:`tepui.data.ImageFolder`.
        like: A data set whose size of images and normalization to take instead, so
            that a model trained on it sees these images as it saw those.

    Raises:
        FileNotFoundError: If the folder is missing.
        ValueError: If it holds no images, or ``like`` holds no square color images.
    """

    def __init__(
        self,
        path: str | Path,
        size: int | None = None,
        like: Arrays | ImageFiles | None = None,
    ) -> None:
        folder = Path(path)
        if not folder.is_dir():
            raise FileNotFoundError(f"path must be a folder of images, got {folder}")
        files = images_in(folder)
        require(len(files) > 0, str(folder), "hold images", "none")
        if like is not None:
            shape = image_shape(like) or ()
            square = len(shape) == 3 and shape == (3, shape[1], shape[1])
            require(square, "like", "hold square color images", shape)
            size = shape[1]
        super().__init__(
            files,
            [NO_LABEL] * len(files),
            frame=None if size is None else Frame(size),
            normalize=IMAGENET if like is None else like.normalize,
        )
