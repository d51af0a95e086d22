"""Data sets in tensors, splits, augmentation and corruptions."""

from tepui.data.arrays import Arrays, Batch, Normalize
from tepui.data.augment import (
    Augmentation,
    HorizontalFlip,
    RandomCrop,
    RandomResizedCrop,
)
from tepui.data.convert import arrays_of
from tepui.data.corruptions import CORRUPTIONS, STANDARD, corrupt, load_frost
from tepui.data.digits import Digits
from tepui.data.shifted import Corrupted, corrupted
from tepui.data.splits import split
from tepui.data.stored import Stored, store

__all__ = [
    "CORRUPTIONS",
    "STANDARD",
    "Arrays",
    "Augmentation",
    "Batch",
    "Corrupted",
    "Digits",
    "HorizontalFlip",
    "Normalize",
    "RandomCrop",
    "RandomResizedCrop",
    "Stored",
    "arrays_of",
    "corrupt",
    "corrupted",
    "load_frost",
    "split",
    "store",
]
