"""The samples that look most and least familiar to an ensemble, as small pictures."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.storage import read_document, reading, tensors_document, write_document
from tepui.data import Arrays
from tepui.data.arrays import Inputs
from tepui.data.loading import at_rows
from tepui.data.stored import StoredData, whole
from tepui.evaluation.evaluations import CLEAN, LOGITS, file_of, names_in
from tepui.evaluation.stored_logits import LogitRuns
from tepui.metrics import pds
from tepui.tasks.named import read_task

FILE = "gallery.json"
KIND = "gallery"
EACH = 6
SIDE = 64


@dataclass(frozen=True)
class Picture:
    """One sample and what the members say about it."""

    row: int  # its place in its data set
    pds: float  # its predictive diversity score
    predictions: Sequence[str]  # the class that each member chooses
    label: str | None  # its class; None where it is unfamiliar
    png: str  # the image as a PNG file in base 64


@dataclass(frozen=True)
class Gallery:
    """The samples of one data set with the lowest and the highest PDS."""

    data: str | None  # the name of the unfamiliar set; None for the test set
    lowest: Sequence[Picture]  # the most familiar samples, lowest first
    highest: Sequence[Picture]  # the least familiar ones, highest first


def write_gallery(
    folder: Path,
    test: Dataset[Any],
    ood: Mapping[str, Dataset[Any]],
) -> None:
    """Write the galleries of the data sets whose logits lie in a folder.

    Those of the unfamiliar sets that have logits from before stay as they are. There
    are none where members do not choose one class for each sample.
    """
    clean = file_of(folder, CLEAN, LOGITS)
    task = read_task(tensors_document(clean)["task"])
    if task.choices(LogitRuns.open(folder).array.shape) is None:
        write_document(folder / FILE, KIND, {"galleries": []})
        return
    kept = {*names_in(folder, LOGITS)} - {*ood}
    stay = [asdict(gallery) for gallery in read_gallery(folder) if gallery.data in kept]
    sets: list[tuple[str | None, Dataset[Any]]] = [(None, test), *ood.items()]
    galleries = [
        asdict(_gallery(name, data, LogitRuns.open(folder, name), test))
        for name, data in sets
        if _shows_pictures(data)
    ]
    write_document(folder / FILE, KIND, {"galleries": [*galleries, *stay]})


def read_gallery(folder: Path) -> tuple[Gallery, ...]:
    """Read the galleries of a folder."""
    file = folder / FILE
    if not file.is_file():
        return ()
    document = read_document(file, KIND)
    with reading(file, "galleries"):
        ends = ("lowest", "highest")
        return tuple(
            Gallery(each["data"], *([Picture(**p) for p in each[end]] for end in ends))
            for each in document["galleries"]
        )


def _shows_pictures(dataset: Dataset[Any]) -> bool:
    inputs = _inputs(dataset, torch.tensor([0]))
    return isinstance(inputs, Tensor) and inputs.ndim == 4 and inputs.shape[1] in (1, 3)


def class_name(dataset: Dataset[Any], label: Tensor) -> str:
    """Return what a class is called."""
    source = whole(dataset)
    names = source.classes if isinstance(source, Arrays | StoredData) else ()
    return names[int(label)] if 0 <= int(label) < len(names) else str(int(label))


def _gallery(
    name: str | None,
    dataset: Dataset[Any],
    stored: LogitRuns,
    test: Dataset[Any],
) -> Gallery:
    runs = [(pds(logits), logits.argmax(-1)) for logits, _ in stored.read()]
    scores, chosen = (torch.cat(parts, -1) for parts in zip(*runs, strict=True))
    labels, order = stored.labels, scores.argsort(stable=True)
    count = min(EACH, len(order))

    text = partial(class_name, test)

    def pictures(rows: Tensor) -> tuple[Picture, ...]:
        files = map(_png, images_at(dataset, rows))
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

    return Gallery(name, pictures(order[:count]), pictures(order[-count:].flip(0)))


def images_at(dataset: Dataset[Any], rows: Tensor) -> Tensor:
    """Return some images of a data set as they are shown."""
    inputs, source = _inputs(dataset, rows), whole(dataset)
    assert isinstance(inputs, Tensor)
    images = inputs.float()
    if isinstance(source, Arrays | StoredData):
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
    if isinstance(dataset, StoredData):  # only these, also of files that are held
        return dataset.prepare(dataset.raw(rows))
    return next(at_rows(dataset, [rows], device=torch.device("cpu"))).inputs


def _png(image: Tensor) -> str:
    from PIL import Image

    pixels = (image * 255).round().byte().permute(1, 2, 0).numpy()
    picture = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    picture.thumbnail((SIDE, SIDE))
    buffer = BytesIO()
    picture.save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode("ascii")
