"""Data sets in tensors and in files, splits, augmentation and corruptions."""

from tepui.data.arrays import Arrays, Batch, Division, Normalize, Partners
from tepui.data.arrays_on_disk import ArrayFile, ArraysOnDisk, StoredArray
from tepui.data.augment import (
    Augmentation,
    HorizontalFlip,
    PerMember,
    RandomCrop,
    RandomErasing,
    RandomResizedCrop,
)
from tepui.data.augmentation_policies import (
    AugMix,
    AutoAugment,
    ColorJitter,
    GaussianBlur,
    RandAugment,
    RandomGrayscale,
    TrivialAugment,
)
from tepui.data.corruptions.apply import (
    CORRUPTIONS,
    EXTRA,
    STANDARD,
    Corruption,
    corrupt,
)
from tepui.data.corruptions.copies import Corrupted, corrupted
from tepui.data.corruptions.draws import Draws
from tepui.data.corruptions.files import (
    corrupted_files,
    write_corrupted,
)
from tepui.data.image_files import Frame, ImageFiles
from tepui.data.image_folders import ImageFolder, UnlabeledFolder
from tepui.data.loading import split, split_at, to_arrays
from tepui.data.mixing import ColumnNoise, CutMix, Mixup, WordDropout
from tepui.data.preparation import Preparation, prepared_like
from tepui.data.sets.cifar import CIFAR10, CIFAR10C, CIFAR100, CIFAR100C
from tepui.data.sets.imagenet import (
    ImageNet,
    ImageNetA,
    ImageNetC,
    ImageNetR,
    TinyImageNet,
    TinyImageNetC,
)
from tepui.data.sets.images import (
    SVHN,
    Digits,
    FashionMNIST,
    UniformNoise,
)
from tepui.data.sets.mrpc import MRPC
from tepui.data.stored import StoredData
from tepui.data.table import Table
from tepui.data.texts import HuggingFaceTokenizer, Texts, Tokenizer

__all__ = [
    "CIFAR10",
    "CIFAR10C",
    "CIFAR100",
    "CIFAR100C",
    "CORRUPTIONS",
    "EXTRA",
    "MRPC",
    "STANDARD",
    "SVHN",
    "ArrayFile",
    "Arrays",
    "ArraysOnDisk",
    "AugMix",
    "Augmentation",
    "AutoAugment",
    "Batch",
    "ColorJitter",
    "ColumnNoise",
    "Corrupted",
    "Corruption",
    "CutMix",
    "Digits",
    "Division",
    "Draws",
    "FashionMNIST",
    "Frame",
    "GaussianBlur",
    "HorizontalFlip",
    "HuggingFaceTokenizer",
    "ImageFiles",
    "ImageFolder",
    "ImageNet",
    "ImageNetA",
    "ImageNetC",
    "ImageNetR",
    "Mixup",
    "Normalize",
    "Partners",
    "PerMember",
    "Preparation",
    "RandAugment",
    "RandomCrop",
    "RandomErasing",
    "RandomGrayscale",
    "RandomResizedCrop",
    "StoredArray",
    "StoredData",
    "Table",
    "Texts",
    "TinyImageNet",
    "TinyImageNetC",
    "Tokenizer",
    "TrivialAugment",
    "UniformNoise",
    "UnlabeledFolder",
    "WordDropout",
    "corrupt",
    "corrupted",
    "corrupted_files",
    "prepared_like",
    "split",
    "split_at",
    "to_arrays",
    "write_corrupted",
]
