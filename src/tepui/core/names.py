"""The classes that text may name, by kind: where each lies, without importing it.

Whatever a file says is looked up here and nowhere else. A test compares the table with
what the packages hold.
"""

from importlib import import_module
from types import MappingProxyType
from typing import Any

from tepui.core.checks import one_of, require

_TABLE = {
    "method": {
        "tepui.methods": "A2D DeepEnsemble DivDis EoA GSAM SAM SED SharpBalance "
        "SnapshotEnsemble"
    },
    "model": {
        "tepui.models": "Albert ConvNet MLP ResNet18 VGG19 VGG19BN ViTSmall ViTTiny "
        "WideResNet40x2 from_timm from_huggingface"
    },
    "data": {
        "tepui.data": "ArrayFile CIFAR10 CIFAR100 Digits FashionMNIST ImageFolder "
        "ImageNet ImageNetA ImageNetR MRPC SVHN Table TinyImageNet "
        "UniformNoise UnlabeledFolder "
        "CIFAR10C CIFAR100C ImageNetC TinyImageNetC"
    },
    "loss": {
        "tepui.losses": "BinaryCrossEntropy CrossEntropy GaussianNLL MSE Quantiles "
        "SoftCrossEntropy"
    },
    "task": {"tepui.tasks": "Classes Gaussians Labels Numbers Quantiles Unknown"},
    "optimizer": {"tepui.training": "AdamW SGD"},
    "schedule": {"tepui.training": "Constant Cosine MultiStep"},
    "augmentation": {
        "tepui.data": "AugMix AutoAugment ColorJitter ColumnNoise CutMix GaussianBlur "
        "HorizontalFlip Mixup PerMember RandAugment RandomCrop RandomErasing "
        "RandomGrayscale RandomResizedCrop TrivialAugment WordDropout"
    },
    "adapter": {"tepui.models": "LoRA"},
    "pruning": {"tepui.modules.pruning": "Prune"},
    "stopping": {"tepui.training": "EarlyStopping"},
    "normalization": {"tepui.data": "Normalize"},
    "executor": {"tepui.studies.executors": "Processes Ray Slurm"},
}
# From what code of one's own must derive before it is called.
_BASES = {
    "method": ("tepui.methods", "Method"),
    "model": ("torch.nn", "Module"),
    "data": ("torch.utils.data", "Dataset"),
    "schedule": ("tepui.training.optimizer", "Schedule"),
    "task": ("tepui.tasks", "Task"),
    "augmentation": ("tepui.data", "Augmentation"),
}
EXAMPLES = {
    "method": "SAM(rho=0.1)",
    "model": "ResNet18(width=8)",
    "data": "ImageFolder(path='photos')",
    "loss": "CrossEntropy(label_smoothing=0.1)",
    "task": "Quantiles(levels=[0.05, 0.5, 0.95])",
    "optimizer": "AdamW(lr=0.001)",
    "schedule": "Cosine(warmup=2)",
    "augmentation": "RandomCrop(padding=4)",
    "adapter": "LoRA(rank=8)",
    "pruning": "Prune(sparsity=0.9)",
    "stopping": "EarlyStopping(patience=5)",
    "executor": "Processes()",
    "function": "mypackage.my_metric",
}
PLACES = MappingProxyType(
    {
        kind: {name: place for place, names in rows.items() for name in names.split()}
        for kind, rows in _TABLE.items()
    }
)


def known(kind: str, name: str) -> Any:
    """Return a class of the table.

    Raises:
        ValueError: If the table has none of that name; it says the nearest.

    Example:
        >>> known("method", "SMA")
        Traceback (most recent call last):
        ValueError: method must be one of A2D, DeepEnsemble, DivDis, EoA, GSAM, SAM, \
SED, SharpBalance, SnapshotEnsemble, got 'SMA' (did you mean 'SAM'?)
    """
    one_of(kind, name, PLACES[kind])
    return getattr(import_module(PLACES[kind][name]), name)


def takes_own(kind: str) -> bool:
    """Return whether code of one's own may be of a kind, if a person types its path."""
    return kind in _BASES


def base_of(kind: str) -> type:
    """Return from what a class of one's own must derive to be of a kind."""
    rule = f"be one of {', '.join(PLACES[kind])}"
    require(kind in _BASES, kind, rule, "code of your own")
    module, name = _BASES[kind]
    base: type = getattr(import_module(module), name)
    return base
