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
    CorruptedArrays,
    CorruptedFolders,
    corrupted_files,
    write_corrupted,
)
from tepui.data.corruptions.weather import load_frost
from tepui.data.hugging_face import HuggingFace
from tepui.data.image_files import Frame, ImageFiles
from tepui.data.image_folders import ImageFolder, UnlabeledFolder
from tepui.data.loading import to_arrays
from tepui.data.mixing import ColumnNoise, CutMix, Mixup, WordDropout
from tepui.data.preparation import Preparation
from tepui.data.prepared_like import prepared_like
from tepui.data.sets.cifar import CIFAR10, CIFAR100
from tepui.data.sets.imagenet import (
    ImageNet,
    ImageNetA,
    ImageNetR,
    ImageNetSketch,
    TinyImageNet,
)
from tepui.data.sets.images import (
    SVHN,
    Digits,
    FashionMNIST,
    GaussianNoise,
    UniformNoise,
)
from tepui.data.sets.mrpc import MRPC
from tepui.data.sets.released_corruptions import (
    CIFAR10C,
    CIFAR100C,
    ImageNetC,
    TinyImageNetC,
)
from tepui.data.splits import joined, split, split_at
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
    "CorruptedArrays",
    "CorruptedFolders",
    "Corruption",
    "CutMix",
    "Digits",
    "Division",
    "Draws",
    "FashionMNIST",
    "Frame",
    "GaussianBlur",
    "GaussianNoise",
    "HorizontalFlip",
    "HuggingFace",
    "HuggingFaceTokenizer",
    "ImageFiles",
    "ImageFolder",
    "ImageNet",
    "ImageNetA",
    "ImageNetC",
    "ImageNetR",
    "ImageNetSketch",
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
    "joined",
    "load_frost",
    "prepared_like",
    "split",
    "split_at",
    "to_arrays",
    "write_corrupted",
]
