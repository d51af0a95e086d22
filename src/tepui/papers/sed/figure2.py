"""Figure 2: the images on which members of SED differ most and least, by PDS.

Results hold the places of the images in their set; the picture takes them from there.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.evaluation.gallery import class_name, images_at
from tepui.metrics import ensemble_predictions, pds, predictions
from tepui.papers.recipe import Numbers, Order, Recipe, Size
from tepui.papers.sed import protocol
from tepui.papers.sed.protocol import Quantity, Tested, per_sample
from tepui.papers.sed.scales import STUDIES
from tepui.report.drawing import grid
from tepui.studies import Results, Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SET = "imagenet_r"
EACH = 5


def numbers(order: Order) -> Iterator[Numbers]:
    """Return PDS of the most and the least divergent images, with what is seen."""
    study = protocol.study_of(order)
    runs = protocol.trials(study, "sed_a2d")[:1]
    values = partial(divergent, size=order.size)
    yield protocol.head_numbers("sed/figure2", study, "sed_a2d", runs, values, at={})


def divergent(tested: Tested, size: Size) -> dict[Quantity, float]:
    """Return PDS at both ends of the ranking, with what is seen there."""
    answers = tested.sets[SET]
    assert answers.labels is not None
    labels, scores = answers.labels, per_sample(pds, answers)
    ranked = scores.argsort(stable=True)
    images = pictures(size, tested.store)
    together = per_sample(partial(ensemble_predictions, rule="logit"), answers)
    apart = per_sample(predictions, answers)
    values = {}
    for end, rows in (("most", ranked.flip(0)), ("least", ranked)):
        for rank, row in enumerate(rows[:EACH].tolist(), start=1):
            at = {
                "divergent": end,
                "rank": rank,
                "row": row,
                "label": class_name(images, labels[row]),
                "prediction": class_name(images, together[row]),
                "others": _others(images, apart[:, row], together[row]),
            }
            quantity = Quantity(SET, "pds", "none", tuple(at.items()))
            values[quantity] = float(scores[row])
    return values


def pictures(size: Size, store: Store) -> Dataset[Any]:
    """Return the images that are ranked."""
    return STUDIES[size].images(0)[SET].load(store)


def draw(results: Results) -> "Figure":
    """Return the most divergent images above the least divergent ones."""
    size: Any = results.size.split("+")[0]
    images = pictures(size, Store(".", device="cpu"))
    figure, axes = grid(len(results.records), columns=EACH)
    figure.set_size_inches(2.3 * EACH, 2 * 3.2)
    shown = images_at(
        images, torch.tensor([record.at["row"] for record in results.records])
    )
    for axis, record, image in zip(axes, results.records, shown, strict=True):
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
    other = [int(choice) for choice in chosen.unique() if choice != together]
    return ", ".join(class_name(images, torch.tensor(choice)) for choice in other)


RECIPE = Recipe(
    title="images on which SED's members differ most and least",
    numbers=numbers,
    settings=lambda order: protocol.settings(order, shown="the first repetition"),
    draw=draw,
    overrides=protocol.LENGTHS,
)
