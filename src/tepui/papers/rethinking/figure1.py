"""Figure 1: one image under the corruptions.

A photograph is corrupted by the rules of ImageNet-C, at severity 3. The numbers say by
how much each corruption changes it.

Differs from the paper:

- flower.jpg of scikit-learn, by vultilion, CC BY 2.0, for images of ImageNet (it comes
  with a library)
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from tepui.data import STANDARD, corrupt
from tepui.papers.recipe import DIFFERS, Numbers, Order, Recipe, Size, differing
from tepui.report.drawing import image_grid
from tepui.studies import Record, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 3
SEED = 0  # of the corruptions
SEVERITIES = (1, 2, 3, 4, 5)
CREDIT = "flower.jpg of scikit-learn, by vultilion, CC BY 2.0"


class View(NamedTuple):
    """How the photograph is shown."""

    pixels: int
    # whose parameters the corruptions take
    strength: Literal["tiny_imagenet", "imagenet"]


VIEWS: dict[Size, View] = {
    "paper": View(224, "imagenet"),
    "small": View(224, "imagenet"),
    "smoke": View(64, "tiny_imagenet"),
}


def photograph(pixels: int) -> Tensor:
    """Return the middle of the photograph."""
    from sklearn.datasets import load_sample_image

    whole = torch.tensor(load_sample_image("flower.jpg")).permute(2, 0, 1)[None]
    side = min(whole.shape[2:])
    left = (whole.shape[3] - side) // 2
    middle = whole[..., left : left + side].float()
    small = F.interpolate(middle, pixels, mode="bilinear", antialias=True)
    return small.round().clamp(0, 255).to(torch.uint8)


def numbers(order: Order) -> Iterator[Numbers]:
    """Return how much every corruption changes the photograph; nothing is trained."""
    yield Numbers([], lambda store: changes(VIEWS[order.size]))


def changes(view: View) -> Iterator[Record]:
    """Return the change by every corruption, by severity."""
    image = photograph(view.pixels)
    for kind in STANDARD:
        for severity in SEVERITIES:
            changed = corrupt(image, kind, severity, strength=view.strength, seed=SEED)
            change = (changed.float() - image.float()).abs().mean() / 255
            yield Record(
                item="rethinking/figure1",
                dataset="imagenet_c",
                architecture="none",
                method="none",
                metric="mean_absolute_change",
                value=float(change),
                unit="fraction",
                n=1,
                at={"corruption": kind, "severity": severity},
            )


def settings(order: Order) -> dict[str, Any]:
    """Return which photograph is corrupted, and how."""
    view = VIEWS[order.size]
    return {
        "image": CREDIT,
        "pixels": view.pixels,
        "strength": view.strength,
        "severity shown": SHOWN,
        "seeds": [SEED],
        "precision": "float32",
        DIFFERS: differing(__doc__),
    }


def draw(results: Results) -> "Figure":
    """Return the photograph, clean and under every corruption."""
    view = VIEWS[cast(Size, results.size.split("+")[0])]
    image = photograph(view.pixels)
    images = {"clean": image[0]}
    for kind in dict.fromkeys(record.at["corruption"] for record in results.records):
        changed = corrupt(image, kind, SHOWN, strength=view.strength, seed=SEED)
        images[kind.replace("_", " ")] = changed[0]
    return image_grid(images)


RECIPE = Recipe(
    title="one image under the fifteen corruptions",
    numbers=numbers,
    settings=settings,
    draw=draw,
)
