"""The three sizes of the study: images, extractor and heads of each.

All members are heads on one frozen extractor. At ``paper`` size everything is the
paper's: the last layers of DeiT-3 Base on ImageNet. At ``small`` size, for two
processors, a convolutional network learns from some images of Fashion-MNIST and is
frozen, and heads with one hidden layer learn from its features of others. ``smoke`` is
for tests of the code. Each of the paper's test sets has a stand-in:

- ``imagenet_val``: test images of Fashion-MNIST;
- ``imagenet_a``: those that the extractor of another repetition gets wrong, as
  ImageNet-A was chosen;
- ``imagenet_r``: their stencils, white where an image is lighter than its mean;
- ``imagenet_c1`` and ``imagenet_c5``: their copies under the standard corruptions;
- ``inaturalist``: scikit-learn's digits, enlarged;
- ``openimages_o``: the test images with light and dark exchanged.

As in the released code, all heads of an ensemble start from the same weights (up to one
per cent of noise, which lets coupled members part): the mean of their weights means
something only then. Each repetition has an extractor, images and a start of its own,
which all methods share.

Differs from the paper:

- a frozen ConvNet with heads of one hidden layer for DeiT-3 Base with its last two
  layers; heads share a random start, not a pretrained one (below paper size)
- the stand-ins are those of the settings: test images, those that another extractor
  gets wrong, their stencils, copies corrupted by tepui, other images, inverted images
- at small size SED's disagreement has the weight 3, not 0.1 (the smallest of seven with
  which members give two different answers to shifted images that were held out,
  benchmarks/sed_weight.py)
- SED trains longer by members over active members (each head has as many updates as
  elsewhere)
- A2D and DivDis see, without labels, stencils of the very images they are tested on,
  where the paper's imagenet_r shares no image with imagenet_val (the stand-in has no
  other images)
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.checks import one_of
from tepui.core.seeding import seeded
from tepui.data import (
    STANDARD,
    Digits,
    FashionMNIST,
    ImageNet,
    ImageNetA,
    ImageNetC,
    ImageNetR,
    UnlabeledFolder,
)
from tepui.data.published import ENVIRONMENT, data_folder
from tepui.evaluation.stored_logits import LogitType
from tepui.methods import DeepEnsemble
from tepui.models import MLP, ConvNet, from_timm, split_last_layers
from tepui.papers.recipe import Size
from tepui.studies import DataSource, Samples, Trial, seeds
from tepui.studies.derived_data import Changed, Copies, Misjudged, ReleasedCopies
from tepui.studies.specifications import DataStore
from tepui.training import MultiStep, TrainingSpec
from tepui.training.numerics import Precision

PRECISION: Precision = "float32"  # of training, of extractors and heads
# How far heads of one ensemble start from each other.
SPREAD = 0.01
# Where the images come from that no data set of tepui holds.
FROM = {
    "inaturalist": "github.com/deeplearning-wisc/large_scale_ood",
    "openimages-o": "github.com/haoqiwang/vim",
}


class HeadStudy(NamedTuple):
    """How large the study is."""

    ensembles: int  # repetitions: extractors, each with images and heads of its own
    members: int  # of an ordinary ensemble
    large: int  # of a large one
    sizes: tuple[int, ...]  # ensemble sizes whose detection is compared
    lambdas: tuple[float, ...]  # weights of SED's disagreement that are compared
    epochs: int  # passes of a head over its data
    # train SED longer by members over active members, so that each of its heads has as
    # many updates as in other methods
    longer: bool
    batch_size: int
    # the images of each set, by the paper's name, for one repetition;
    # "train" is what heads learn from
    images: Callable[[int], Mapping[str, DataSource]]
    # what makes features, for one repetition
    extractor: Callable[[int], Trial | Callable[[], nn.Module]]
    layers: int  # how many of its last layers are cut off
    # returns a new head; takes the repetition as "start"
    head: Callable[..., nn.Module]
    weight: float = 0.1  # of SED's disagreement, where it is not varied
    partial: tuple[str, ...] = ()  # sets that hold only some of the classes
    logits_in: LogitType = "float32"  # how the heads' answers are stored


@final
@dataclass(frozen=True)
class Folder(DataSource):
    """Unlabeled images in a folder below the data folder."""

    name: str  # the folder's, one of FROM

    def __post_init__(self) -> None:
        one_of("name", self.name, FROM)

    def load(self, store: DataStore) -> Dataset[Any]:
        """Return the images at ImageNet's size."""
        folder = data_folder() / self.name
        if not folder.is_dir():
            raise FileNotFoundError(
                f"{self.name} is not in {data_folder()}. Place it by hand (from "
                f"{FROM[self.name]}): any images in {folder} or below it; tepui data "
                f"does not fetch it. Another data folder: the variable {ENVIRONMENT}."
            )
        return UnlabeledFolder(folder, size=224)


def stencils(images: Tensor) -> Tensor:
    """Return white where an image is lighter than its mean, black elsewhere.

    Example:
        >>> stencils(torch.tensor([[[[0.0, 0.2, 1.0]]]]))
        tensor([[[[0., 0., 1.]]]])
    """
    return (images > images.mean((1, 2, 3), keepdim=True)).to(images.dtype)


def inverted(images: Tensor) -> Tensor:
    """Return images in [0, 1] with light and dark exchanged."""
    return 1 - images


def halves_exchanged(images: Tensor) -> Tensor:
    """Return images whose left and right halves have changed places."""
    return images.roll(images.shape[-1] // 2, -1)


def near_start(start: int, in_features: int, hidden: int) -> MLP:
    """Return a head near the one that all heads with this start share."""
    make = partial(MLP, in_features=in_features, hidden=(hidden,))
    head = make()
    with seeded(start, "shared head"):
        shared = make()
    with torch.no_grad():
        for weights, first in zip(head.parameters(), shared.parameters(), strict=True):
            weights.mul_(SPREAD).add_(first)
    return head


def deit3() -> nn.Module:
    """Return DeiT-3 Base, trained on ImageNet-21k, with its published weights."""
    return from_timm("deit3_base_patch16_224.fb_in22k_ft_in1k", pretrained=True)


def deit3_tail(start: int, layers: int) -> nn.Module:
    """Return a copy of the last layers of DeiT-3; the start is the published one."""
    return split_last_layers(deit3(), layers).tail()


def _stand_ins(
    dataset: Callable[..., Any],
    count: int,
    tested: int,
    width: int,
    epochs: int,
    types: tuple[str, ...],
    other: DataSource | None,
    repetitions: int,
) -> dict[str, Any]:
    """Return the fields of a study for which a small network is the extractor."""

    def extractor(repetition: int) -> Trial:
        return Trial(
            Samples(dataset, "train", 0.5, count, repetition),
            partial(ConvNet, width=width),
            TrainingSpec(
                method=DeepEnsemble(),
                epochs=epochs,
                batch_size=128,
                schedule=MultiStep(),
                precision=PRECISION,
            ),
            seeds(repetition, 1),
        )

    def images(repetition: int) -> dict[str, DataSource]:
        test = Samples(dataset, "test", count=tested, seed=repetition)
        judge = extractor((repetition + 1) % repetitions)
        return {
            "train": Samples(dataset, "held_out", 0.5, count, repetition),
            "imagenet_val": test,
            "imagenet_a": Misjudged(test, judge),
            "imagenet_r": Changed(test, stencils),
            "imagenet_c1": Copies(test, types, 1, seed=repetition),
            "imagenet_c5": Copies(test, types, 5, seed=repetition),
            "inaturalist": other or Changed(test, halves_exchanged),
            "openimages_o": Changed(test, inverted),
        }

    return {
        "ensembles": repetitions,
        "images": images,
        "extractor": extractor,
        "layers": 1,
        "head": partial(near_start, in_features=16 * width, hidden=64),
    }


def _paper_images(repetition: int) -> dict[str, DataSource]:
    return {
        "train": Samples(ImageNet),
        "imagenet_val": Samples(ImageNet, "test"),
        "imagenet_a": Samples(ImageNetA, "test"),
        "imagenet_r": Samples(ImageNetR, "test"),
        "imagenet_c1": ReleasedCopies(ImageNetC, STANDARD, 1),
        "imagenet_c5": ReleasedCopies(ImageNetC, STANDARD, 5),
        "inaturalist": Folder("inaturalist"),
        "openimages_o": Folder("openimages-o"),
    }


LAMBDAS = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
STUDIES: Mapping[Size, HeadStudy] = {
    "paper": HeadStudy(
        ensembles=1,
        members=5,
        large=50,
        sizes=(2, 5, 10, 20, 50),
        lambdas=LAMBDAS,
        epochs=10,
        longer=False,
        batch_size=16,
        images=_paper_images,
        extractor=lambda repetition: deit3,
        layers=3,
        head=partial(deit3_tail, layers=3),
        partial=("imagenet_a", "imagenet_r"),
        logits_in="float16",
    ),
    "small": HeadStudy(
        members=5,
        large=20,
        sizes=(2, 5, 10, 20),
        lambdas=LAMBDAS,
        epochs=10,
        longer=True,
        batch_size=128,
        weight=3.0,
        **_stand_ins(FashionMNIST, 8000, 1000, 8, 5, STANDARD, Samples(Digits), 4),
    ),
    "smoke": HeadStudy(
        members=3,
        large=4,
        sizes=(2, 3, 4),
        lambdas=(0.1, 10.0),
        epochs=8,
        longer=True,
        batch_size=64,
        **_stand_ins(Digits, 1000, 100, 4, 6, ("gaussian_noise",), None, 2),
    ),
}
