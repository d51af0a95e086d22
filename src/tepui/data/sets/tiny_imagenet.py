"""TinyImageNet-200: 100 000 training images of 64×64 pixels, 200 classes.

The labels of the official test images are not public; as everywhere in the field, the
10 000 validation images serve as the test part. They lie in ``val/images`` with their
classes in ``val_annotations.txt``, or already sorted into one folder per class.

References:
    Le and Yang (2015), Tiny ImageNet Visual Recognition Challenge, CS 231N.
"""

from pathlib import Path
from typing import ClassVar, final

import torch

from tepui.core.checks import require
from tepui.core.storage import read_text
from tepui.data.arrays import Normalize
from tepui.data.files.origins import Download, Origin
from tepui.data.files.published_arrays import Contents, PublishedArrays
from tepui.data.image_files import class_folders, decode_all, labeled, listed_classes

CLASSES = 200


@final
class TinyImageNet(PublishedArrays):
    """TinyImageNet-200, 110 000 images of 64 px in 200 classes.

    Images are bytes of shape ``(samples, 3, 64, 64)``, labels the position of their
    class in the sorted list of WordNet identifiers, int64. Arguments as in
    :class:`tepui.data.files.published_arrays.PublishedArrays`.
    """

    origin = Origin(
        ("tiny-imagenet-200",),
        (
            Download(
                "https://cs231n.stanford.edu/tiny-imagenet-200.zip",
                "md5:90528d7ca1a48142e341f4ef8d21d0de",
                "loaders of other libraries; the authors publish none",
                248_000_000,
                "6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
            ),
        ),
    )
    normalization = Normalize((0.480, 0.448, 0.397), (0.276, 0.269, 0.282))
    shape = (3, 64, 64)
    num_samples: ClassVar[dict[bool, int]] = {True: 100_000, False: 10_000}

    def _read(self, folder: Path, train: bool) -> Contents:
        wnids = listed_classes(folder / "wnids.txt", CLASSES)
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
