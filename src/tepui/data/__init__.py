"""Data sets in tensors and in files, splits, augmentation and corruptions."""

from tepui.data.array_file import ArrayFile
from tepui.data.arrays import Arrays, Batch, Normalize
from tepui.data.augment import (
    Augmentation,
    HorizontalFlip,
    RandomCrop,
    RandomResizedCrop,
)
from tepui.data.cifar import CIFAR10, CIFAR100
from tepui.data.convert import arrays_of
from tepui.data.corrupted_files import (
    CorruptedArrays,
    CorruptedFolders,
    corrupted_files,
)
from tepui.data.corruptions import CORRUPTIONS, STANDARD, corrupt, load_frost
from tepui.data.digits import Digits
from tepui.data.fashion_mnist import FashionMNIST
from tepui.data.image_files import Frame, ImageFiles
from tepui.data.image_folder import ImageFolder
from tepui.data.imagenet import (
    ImageNet,
    ImageNetA,
    ImageNetR,
    ImageNetSketch,
    restricted,
)
from tepui.data.mrpc import MRPC
from tepui.data.noise import GaussianNoise, UniformNoise
from tepui.data.prepared_like import prepared_like
from tepui.data.released_corruptions import (
    CIFAR10C,
    CIFAR100C,
    ImageNetC,
    TinyImageNetC,
)
from tepui.data.shifted import Corrupted, corrupted
from tepui.data.splits import split, split_at
from tepui.data.stored import store
from tepui.data.svhn import SVHN
from tepui.data.tiny_imagenet import TinyImageNet
from tepui.data.tokenizer import HuggingFaceTokenizer, Tokenizer
from tepui.data.unlabeled import UnlabeledFolder

__all__ = [
    "CIFAR10",
    "CIFAR10C",
    "CIFAR100",
    "CIFAR100C",
    "CORRUPTIONS",
    "MRPC",
    "STANDARD",
    "SVHN",
    "ArrayFile",
    "Arrays",
    "Augmentation",
    "Batch",
    "Corrupted",
    "CorruptedArrays",
    "CorruptedFolders",
    "Digits",
    "FashionMNIST",
    "Frame",
    "GaussianNoise",
    "HorizontalFlip",
    "HuggingFaceTokenizer",
    "ImageFiles",
    "ImageFolder",
    "ImageNet",
    "ImageNetA",
    "ImageNetC",
    "ImageNetR",
    "ImageNetSketch",
    "Normalize",
    "RandomCrop",
    "RandomResizedCrop",
    "TinyImageNet",
    "TinyImageNetC",
    "Tokenizer",
    "UniformNoise",
    "UnlabeledFolder",
    "arrays_of",
    "corrupt",
    "corrupted",
    "corrupted_files",
    "load_frost",
    "prepared_like",
    "restricted",
    "split",
    "split_at",
    "store",
]
