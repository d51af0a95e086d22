"""TinyImageNet-200: 100 000 training images of 64×64 pixels, 200 classes.

The labels of the official test images are not public; as everywhere in the field, the
10 000 validation images serve as the test part. They lie in ``val/images`` with their
classes in ``val_annotations.txt``, or already sorted into one folder per class.

References:
    Le and Yang (2015), Tiny ImageNet Visual Recognition Challenge, CS 231N.
"""

from pathlib import Path
from typing import final

import torch

from tepui.core.checks import require
from tepui.data.arrays import Normalize
from tepui.data.files.origins import Download, Origin, require_file
from tepui.data.files.published_arrays import Contents, PublishedArrays
from tepui.data.image_files import class_folders, decode_all, labeled

CLASSES = 200
SAMPLES = {True: 100_000, False: 10_000}


@final
class TinyImageNet(PublishedArrays):
    """TinyImageNet-200: 100 000 training images; the 10 000 of validation as test part.

    Images are bytes of shape ``(samples, 3, 64, 64)``, labels the position of their
    class in the sorted list of WordNet identifiers, int64. Arguments as in
    :class:`tepui.data.files.published_arrays.PublishedArrays`.
    """

    origin = Origin(
        "TinyImageNet-200, 110 000 images of 64 px in 200 classes",
        ("tiny-imagenet-200",),
        (
            Download(
                "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
                "md5:90528d7ca1a48142e341f4ef8d21d0de",
                "loaders of other libraries; the authors publish none",
                248_000_000,
            ),
        ),
    )
    normalization = Normalize((0.480, 0.448, 0.397), (0.276, 0.269, 0.282))

    def _read(self, folder: Path, train: bool) -> Contents:
        wnids = read_wnids(folder)
        numbers = {wnid: number for number, wnid in enumerate(wnids)}
        part = folder / ("train" if train else "val")
        if not train and (part / "val_annotations.txt").exists():
            files, labels = _annotated(part, numbers)
        else:
            files, labels = labeled(class_folders(part), numbers)
        rule = f"hold {SAMPLES[train]} images"
        require(len(files) == SAMPLES[train], str(folder), rule, len(files))
        images = decode_all(files)
        rule = "hold images of 64x64 pixels"
        require(images.shape[2:] == (64, 64), str(folder), rule, images.shape[2:])
        return images, torch.tensor(labels), wnids


def read_wnids(folder: Path) -> tuple[str, ...]:
    """Return the classes of TinyImageNet: WordNet identifiers in sorted order."""
    require_file(folder / "wnids.txt")
    wnids = sorted((folder / "wnids.txt").read_text().split())
    right = len(wnids) == len(set(wnids)) == CLASSES
    require(right, str(folder / "wnids.txt"), f"list {CLASSES} classes", len(wnids))
    return tuple(wnids)


def _annotated(folder: Path, numbers: dict[str, int]) -> tuple[list[Path], list[int]]:
    """Return the validation images with the classes of ``val_annotations.txt``."""
    files, labels = [], []
    path = folder / "val_annotations.txt"
    for line in path.read_text().splitlines():
        fields = line.split("\t")
        right = len(fields) > 1 and fields[1] in numbers
        require(right, str(path), "name a file and its class on each line", line)
        file = fields[0]
        require(Path(file).name == file, str(path), "hold plain file names", file)
        files.append(folder / "images" / file)
        labels.append(numbers[fields[1]])
    return files, labels
