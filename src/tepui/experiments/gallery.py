"""The samples that look most and least familiar to an ensemble, as small pictures."""

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.data import Arrays, ImageFiles
from tepui.data.arrays import Inputs
from tepui.data.loading import at_rows
from tepui.data.prepared_like import whole
from tepui.metrics import pds
from tepui.storage import read_json, write_json
from tepui.stored_logits import read_logits

FILE = "gallery.json"
EACH = 6
SIDE = 64


@dataclass(frozen=True)
class Picture:
    """One sample and what the members say about it.

    Attributes:
        row: Its place in its data set.
        pds: Its predictive diversity score.
        predictions: The class that each member chooses.
        label: Its class; None where it is unfamiliar.
        png: The image as a PNG file in base 64.
    """

    row: int
    pds: float
    predictions: tuple[str, ...]
    label: str | None
    png: str

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Rebuild a picture from its JSON form."""
        return cls(**{**document, "predictions": tuple(document["predictions"])})


@dataclass(frozen=True)
class Gallery:
    """The samples of one data set with the lowest and the highest PDS.

    Attributes:
        data: The name of the unfamiliar set; None for the test set.
        lowest: The most familiar samples, lowest first.
        highest: The least familiar ones, highest first.
    """

    data: str | None
    lowest: tuple[Picture, ...]
    highest: tuple[Picture, ...]


def write_gallery(
    folder: Path, test: Dataset[Any], ood: Mapping[str, Dataset[Any]]
) -> None:
    """Write the galleries of the data sets whose logits lie in a folder.

    Args:
        folder: Where ``tepui.evaluate(..., out=folder)`` put the logits; receives
            ``gallery.json``.
        test: The test set.
        ood: The unfamiliar sets by name.
    """
    stored = read_logits(folder)
    source = whole(test)
    names = source.classes if isinstance(source, Arrays | ImageFiles) else ()
    sets: list[tuple[str | None, Dataset[Any], Tensor, Tensor | None]] = [
        (None, test, *stored.clean),
        *((name, data, stored.ood[name], None) for name, data in ood.items()),
    ]
    galleries = [
        asdict(_gallery(name, data, logits, labels, names))
        for name, data, logits, labels in sets
        if _shows_pictures(data)
    ]
    write_json(folder / FILE, galleries)


def read_gallery(folder: Path) -> tuple[Gallery, ...]:
    """Read the galleries of a folder.

    Args:
        folder: Where :func:`write_gallery` put them.

    Returns:
        One per data set of images; none if there is no file.

    Raises:
        ValueError: If the file is foreign or damaged.
    """
    file = folder / FILE
    if not file.is_file():
        return ()
    document = read_json(file)
    try:
        return tuple(
            Gallery(
                item["data"],
                tuple(map(Picture.of, item["lowest"])),
                tuple(map(Picture.of, item["highest"])),
            )
            for item in document
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} must hold galleries, but: {error!r}") from error


def _shows_pictures(dataset: Dataset[Any]) -> bool:
    inputs = _inputs(dataset, torch.tensor([0]))
    return isinstance(inputs, Tensor) and inputs.ndim == 4 and inputs.shape[1] in (1, 3)


def _gallery(
    name: str | None,
    dataset: Dataset[Any],
    logits: Tensor,
    labels: Tensor | None,
    classes: tuple[str, ...],
) -> Gallery:
    scores = pds(logits)
    order = scores.argsort(stable=True)
    each = min(EACH, len(order))
    chosen = logits.argmax(-1)

    def text(label: Tensor) -> str:
        return classes[int(label)] if int(label) < len(classes) else str(int(label))

    def pictures(rows: Tensor) -> tuple[Picture, ...]:
        files = map(_png, _images(dataset, rows))
        return tuple(
            Picture(
                row,
                float(scores[row]),
                tuple(map(text, chosen[:, row])),
                None if labels is None else text(labels[row]),
                file,
            )
            for row, file in zip(rows.tolist(), files, strict=True)
        )

    return Gallery(name, pictures(order[:each]), pictures(order[-each:].flip(0)))


def _images(dataset: Dataset[Any], rows: Tensor) -> Tensor:
    """Return images in [0, 1]; of unknown scale, each is stretched over it."""
    inputs, source = _inputs(dataset, rows), whole(dataset)
    assert isinstance(inputs, Tensor)
    images = inputs.float()
    if isinstance(source, Arrays | ImageFiles):
        if source.normalize is not None:
            mean = torch.tensor(source.normalize.mean)[:, None, None]
            std = torch.tensor(source.normalize.std)[:, None, None]
            images = images * std + mean
        return images.clamp(0, 1)
    low, high = (
        f(images, dim=(1, 2, 3), keepdim=True) for f in (torch.amin, torch.amax)
    )
    return (images - low) / (high - low).clamp(min=1e-12)


def _inputs(dataset: Dataset[Any], rows: Tensor) -> Inputs:
    return next(at_rows(dataset, [rows], device=torch.device("cpu"))).inputs


def _png(image: Tensor) -> str:
    from PIL import Image

    pixels = (image * 255).round().byte().permute(1, 2, 0).numpy()
    picture = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    picture.thumbnail((SIDE, SIDE))
    buffer = BytesIO()
    picture.save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode("ascii")
