"""Figure 2: the images on which members of SED differ most and least, by PDS.

Results hold the places of the images in their set; the picture takes them from there.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.metrics import ensemble_predictions, pds, predictions
from tepui.papers.recipe import Order, Recipe, Size
from tepui.papers.sed.protocol import (
    ARCHITECTURE,
    answers,
    examined,
    extractors,
    settings,
    trials,
)
from tepui.papers.sed.scales import SCALES
from tepui.report.studies import grid
from tepui.studies.gallery import class_name, images_at
from tepui.studies.jobs import Job
from tepui.studies.results import Record, Results, averaged
from tepui.studies.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SET = "imagenet_r"
EACH = 5


def plan(order: Order) -> list[Job]:
    """Return SED's ensemble of the first repetition."""
    scale = SCALES[order.size]
    return extractors(scale) + examined(scale, trials(scale, "sed_a2d")[:1])


def records(store: Store, order: Order) -> Iterator[Record]:
    """Return PDS of the most and the least divergent images, with what is seen."""
    scale = SCALES[order.size]
    runs = trials(scale, "sed_a2d")[:1]
    logits, labels = next(answers(store, scale, runs, scale.members))[SET]
    scores = pds(logits)
    ranked = scores.argsort(stable=True)
    images = pictures(order.size, store)
    together, apart = ensemble_predictions(logits, rule="logit"), predictions(logits)
    for end, rows in (("most", ranked.flip(0)), ("least", ranked)):
        for rank, row in enumerate(rows[:EACH].tolist(), start=1):
            others = _others(images, apart[:, row], together[row])
            yield averaged(
                [float(scores[row])],
                runs,
                item="sed/figure2",
                dataset=SET,
                architecture=ARCHITECTURE,
                method="sed_a2d",
                metric="pds",
                unit="none",
                at={
                    "divergent": end,
                    "rank": rank,
                    "row": row,
                    "label": class_name(images, labels[row]),
                    "prediction": class_name(images, together[row]),
                    "others": others,
                },
            )


def pictures(size: Size, store: Store) -> Dataset[Any]:
    """Return the images that are ranked."""
    return SCALES[size].images(0)[SET].load(store)


def draw(found: Results) -> "Figure":
    """Return the most divergent images above the least divergent ones."""
    images = pictures(found.size, Store(".", device="cpu"))  # type: ignore[arg-type]
    figure, axes = grid(len(found.records), columns=EACH)
    figure.set_size_inches(2.3 * EACH, 2 * 3.2)
    shown = images_at(images, torch.tensor([each.at["row"] for each in found.records]))
    for axis, record, image in zip(axes, found.records, shown, strict=True):
        axis.imshow(image.permute(1, 2, 0).squeeze(-1).numpy(), cmap="gray")
        label = f"GT: {record.at['label']}, PDS {record.value:.3f}"
        axis.set_title(label, fontsize=9)
        axis.set_xlabel(record.at["prediction"], fontsize=9, fontweight="bold")
        others, below = record.at["others"], (0.5, -0.12)
        axis.annotate(
            others, below, xycoords="axes fraction", ha="center", va="top", fontsize=8
        )
        axis.set_xticks([])
        axis.set_yticks([])
        axis.grid(visible=False)
        axis.spines[:].set_visible(False)
    for axis, end in ((axes[0], "most"), (axes[EACH], "least")):
        axis.set_ylabel(f"{end} divergent", fontsize=10)
    return figure


def _others(images: Dataset[Any], chosen: Tensor, together: Tensor) -> str:
    """Return what members say that the ensemble does not, each once."""
    other = [int(each) for each in chosen.unique() if each != together]
    return ", ".join(class_name(images, torch.tensor(each)) for each in other)


RECIPE = Recipe(
    title="images on which SED's members differ most and least",
    plan=plan,
    records=records,
    settings=lambda order: settings(order.size, shown="the first repetition"),
    draw=draw,
)
