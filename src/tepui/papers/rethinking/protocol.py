"""The six controls, at three sizes; shared by the paper's tables.

A network is trained plainly (the baseline), with augmentation or with weight decay,
each without and with SAM, and with nothing else changed: a seed stands for the same
first weights and the same order of data in all six. One ensemble holds the networks of
all seeds of a control, so that they are tested and measured together.

At ``paper`` size everything is the paper's. At ``small`` size, for two processors, each
of its data sets has a stand-in: scikit-learn's digits for CIFAR-10, a part of
Fashion-MNIST for CIFAR-100 and a part of CIFAR-10 for TinyImageNet; its networks are
small ones. ``smoke`` is for tests of the code.

Differs from the paper:

- sharpness is measured of every control on clean and on augmented training data, in the
  paper on augmented data for the augmentation controls and on clean data for the others
- relative flatness is the mean over all training samples (the paper's size suggests a
  sum over batches)
- SAM-sharpness adds independent noise to every weight and takes the mean rise (the
  paper does not say how long its steps are, nor mean or largest)
- the size of the vision transformer is ours (the paper names none)
- a cosine falls at every step, not once an epoch
- at paper size trained in bfloat16 with float32 weights and tested in TF32 (a step on
  an H200 takes a sixth of the time; the paper names no precision)
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from torch import nn

from tepui.data import (
    CIFAR10,
    CIFAR10C,
    CIFAR100,
    CIFAR100C,
    STANDARD,
    Augmentation,
    Digits,
    FashionMNIST,
    HorizontalFlip,
    RandomCrop,
    RandomResizedCrop,
    TinyImageNet,
    TinyImageNetC,
)
from tepui.methods import SAM, DeepEnsemble
from tepui.models import VGG19, VGG19BN, ConvNet, Resize, ResNet18, ViTTiny, from_timm
from tepui.papers.recipe import (
    DIFFERS,
    Order,
    Size,
    described,
    differing,
    installed,
    made_copies,
)
from tepui.sharpness import fisher_rao, relative_flatness, sam_sharpness
from tepui.studies import (
    EvaluationSpec,
    Samples,
    SharpnessSpec,
    Trial,
    seeds,
)
from tepui.studies.derived_data import Augmented
from tepui.training import SGD, Constant, Cosine, Schedule, TrainingSpec
from tepui.training.numerics import Precision

RHO = 0.05
WEIGHT_DECAY = 5e-4
SHARPNESS_DATA = ("clean", "augmented")
IDENTICAL = (
    "tables 3 and 6 of the paper print the same numbers in all 30 cells for two "
    "different networks, so that at least one of them is wrong"
)


class ControlStudy(NamedTuple):
    """How the networks of one table are trained, tested and measured."""

    dataset: Callable[..., Any]  # what is trained on
    train: int | None  # training samples; None takes all
    test: int | None  # test samples; None takes all
    model: Callable[[], nn.Module]  # returns a new network
    members: int  # networks, one per seed
    epochs: int  # length of a run
    rate: float
    augment: tuple[Augmentation, ...]  # what the augmentation control applies
    schedule: Schedule = Constant()  # of the learning rate
    batch_size: int = 256
    types: tuple[str, ...] = STANDARD  # corruptions of the test samples
    severities: tuple[int, ...] = (1, 2, 3, 4, 5)
    strength: str = "cifar"  # whose parameters corruptions take
    places: int = 100  # random places at which SAM-sharpness is measured
    # training samples for SAM-sharpness; None takes all
    sharp_samples: int | None = None
    precision: Precision = "float32"  # of training
    # the class of the corrupted copies that were released; None where there are none
    released_copies: Callable[..., Any] | None = None

    def controls(self) -> dict[str, Trial]:
        """Return the six controls by name: ensembles with a member per seed."""
        plain = SGD(lr=self.rate, momentum=0.9, weight_decay=0.0)
        baseline = Trial(
            data=Samples(self.dataset, count=self.train),
            model=self.model,
            training=TrainingSpec(
                method=DeepEnsemble(),
                epochs=self.epochs,
                batch_size=self.batch_size,
                optimizer=plain,
                schedule=self.schedule,
                precision=self.precision,
            ),
            seeds=seeds(0, self.members),
        )
        decayed = replace(plain, weight_decay=WEIGHT_DECAY)
        plain_or_regularized = {
            "baseline": baseline,
            "augmentation": baseline.trained_with(augment=self.augment),
            "weight_decay": baseline.trained_with(optimizer=decayed),
        }
        return {
            f"{name}{suffix}": trial.trained_with(method=method)
            for name, trial in plain_or_regularized.items()
            for suffix, method in (("", DeepEnsemble()), ("_sam", SAM(rho=RHO)))
        }

    def evaluation_spec(self) -> EvaluationSpec:
        """Return the clean and corrupted test of the study."""
        test = Samples(self.dataset, part="test", count=self.test)
        return EvaluationSpec(
            test,
            types=self.types,
            severities=self.severities,
            strength=self.strength,
            released=installed(self.released_copies),
            logits_read=True,
        )

    def measures(self) -> dict[tuple[str, str], SharpnessSpec]:
        """Return the sharpness measures by name and by what they are measured on."""
        clean = Samples(self.dataset, count=self.train)
        sources = (None, Augmented(clean, self.augment))  # None: what it learned from
        functions: dict[str, Callable[..., Any]] = {
            "fisher_rao": fisher_rao,
            "sam_sharpness": partial(
                sam_sharpness, num_draws=self.places, num_samples=self.sharp_samples
            ),
            "relative_flatness": relative_flatness,
        }
        return {
            (metric, name): SharpnessSpec(function, source)
            for metric, function in functions.items()
            for name, source in zip(SHARPNESS_DATA, sources, strict=True)
        }


def vgg19_on_32px(**options: Any) -> nn.Module:
    """Return a VGG-19 with BatchNorm that enlarges smaller images to 32 pixels."""
    return nn.Sequential(Resize(32), VGG19BN(**options))


_CIFAR10 = ControlStudy(
    dataset=CIFAR10,
    train=None,
    test=None,
    model=ResNet18,
    members=10,
    epochs=100,
    rate=1e-3,
    augment=(RandomCrop(padding=4, fill=128 / 255), HorizontalFlip()),
    precision="bfloat16",
    released_copies=CIFAR10C,
)
_CIFAR100 = _CIFAR10._replace(
    dataset=CIFAR100,
    model=partial(ResNet18, num_classes=100),
    rate=1e-2,
    schedule=Cosine(),
    released_copies=CIFAR100C,
)
_TINY_IMAGENET = _CIFAR10._replace(
    dataset=TinyImageNet,
    model=partial(from_timm, name="resnet18.tv_in1k", num_classes=200, pretrained=True),
    augment=(RandomResizedCrop(size=64), HorizontalFlip()),
    strength="tiny_imagenet",
    sharp_samples=20_000,
    released_copies=TinyImageNetC,
)
_DIGITS = ControlStudy(
    dataset=Digits,
    train=200,
    test=None,
    model=ConvNet,
    members=3,
    epochs=30,
    rate=0.05,
    augment=(RandomCrop(padding=1),),
    batch_size=32,
    severities=(1, 3, 5),
    sharp_samples=50,
)
_FASHION = _DIGITS._replace(
    dataset=FashionMNIST,
    train=500,
    test=200,
    model=partial(ConvNet, width=4),
    epochs=15,
    augment=(RandomCrop(padding=2), HorizontalFlip()),
    schedule=Cosine(),
)
_CIFAR_PART = _FASHION._replace(
    dataset=CIFAR10,
    model=partial(ConvNet, in_channels=3, width=4),
    epochs=10,
    augment=(RandomResizedCrop(), HorizontalFlip()),
    schedule=Constant(),
)
_SMOKE = _DIGITS._replace(
    train=60,
    test=30,
    model=partial(ConvNet, width=2),
    members=2,
    epochs=2,
    types=("gaussian_noise", "contrast"),
    places=3,
    sharp_samples=20,
)
_SMOKE_VGG = _SMOKE._replace(
    model=partial(vgg19_on_32px, in_channels=1, width=1), epochs=1
)
_SMOKE_VIT = _SMOKE._replace(
    model=partial(ViTTiny, in_channels=1, image_size=8, patch_size=4, depth=1)
)
STUDIES: Mapping[Size, Mapping[tuple[str, str], ControlStudy]] = {
    "paper": {
        ("cifar10", "resnet18"): _CIFAR10,
        ("cifar100", "resnet18"): _CIFAR100,
        ("tiny_imagenet", "resnet18_pretrained"): _TINY_IMAGENET,
        ("cifar10", "vgg19"): _CIFAR10._replace(model=VGG19),
        ("cifar100", "vgg19"): _CIFAR100._replace(
            model=partial(VGG19, num_classes=100)
        ),
        ("tiny_imagenet", "vgg19_bn_pretrained"): _TINY_IMAGENET._replace(
            model=partial(
                from_timm, name="vgg19_bn.tv_in1k", num_classes=200, pretrained=True
            )
        ),
        ("cifar10", "vit"): _CIFAR10._replace(model=ViTTiny),
        ("cifar100", "vit"): _CIFAR100._replace(
            model=partial(ViTTiny, num_classes=100)
        ),
    },
    "small": {
        ("cifar10", "resnet18"): _DIGITS._replace(members=5),
        ("cifar100", "resnet18"): _FASHION,
        ("tiny_imagenet", "resnet18_pretrained"): _CIFAR_PART,
        ("cifar10", "vgg19"): _DIGITS._replace(
            test=200,
            model=partial(vgg19_on_32px, in_channels=1, width=2),
            epochs=20,
            places=40,
        ),
        ("cifar100", "vgg19"): _FASHION._replace(
            model=partial(vgg19_on_32px, in_channels=1, width=2), epochs=8, places=40
        ),
        ("tiny_imagenet", "vgg19_bn_pretrained"): _CIFAR_PART._replace(
            model=partial(VGG19BN, width=2), epochs=8, places=40
        ),
        ("cifar10", "vit"): _DIGITS._replace(
            model=partial(ViTTiny, in_channels=1, image_size=8, patch_size=4, depth=1),
            rate=0.01,
        ),
        ("cifar100", "vit"): _FASHION._replace(
            model=partial(
                ViTTiny, in_channels=1, image_size=28, patch_size=14, depth=1
            ),
            rate=0.01,
        ),
    },
    "smoke": {
        ("cifar10", "resnet18"): _SMOKE,
        ("cifar100", "resnet18"): _SMOKE._replace(train=56),
        ("tiny_imagenet", "resnet18_pretrained"): _SMOKE._replace(train=52),
        ("cifar10", "vgg19"): _SMOKE_VGG,
        ("cifar100", "vgg19"): _SMOKE_VGG._replace(train=56),
        ("tiny_imagenet", "vgg19_bn_pretrained"): _SMOKE_VGG._replace(train=52),
        ("cifar10", "vit"): _SMOKE_VIT,
        ("cifar100", "vit"): _SMOKE_VIT._replace(train=56),
    },
}


def study_of(order: Order, dataset: str, architecture: str) -> ControlStudy:
    """Return the study of one table that an order asks for."""
    return STUDIES[order.size][dataset, architecture]._replace(**order.lengths)


def settings(order: Order, dataset: str, architecture: str) -> dict[str, Any]:
    """Return how a table is made, for its results."""
    study = study_of(order, dataset, architecture)
    differs = differing(__doc__)
    if installed(study.released_copies) is None:
        differs.append(made_copies(study.released_copies))
    about = {
        **described(study),
        "seeds": list(seeds(0, study.members)),
        "weight decay": WEIGHT_DECAY,
        "rho": RHO,
        DIFFERS: differs,
    }
    return about | ({"note": IDENTICAL} if dataset == "tiny_imagenet" else {})
