"""When an ensemble's answers can be trusted, and samples with what members say of them.

Both follow from the logits that an evaluation stored: how often members are right where
they agree and where they differ, and what error is left among the surest answers.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from tepui.data.shifts import Cell, Shifts
from tepui.data.stored import StoredData, whole
from tepui.evaluation.evaluations import CLEAN, LOGITS, file_of, names_in
from tepui.evaluation.stored_logits import LogitRuns
from tepui.metrics import Rule, Score, SelectiveCurve, ensemble_predictions, ood_scores
from tepui.tasks.named import read_task

FILE = "gallery.json"
KIND = "gallery"
SCORE: Score = "max_mean_probability"  # by which answers are the surest
EACH = 6  # pictures on which members agree, and as many on which they differ
SIDE = 64
SURE = 0.9  # the probability from which an answer is called sure
SHARES = tuple(n / 20 for n in range(1, 21))  # of the answers, the surest ones


@dataclass(frozen=True)
class Answers:
    """How far the answers on one data set can be trusted.

    Attributes:
        data: ``"clean"``, ``"corrupted"`` for all copies, or a natural shift's name.
        samples: How many there are.
        agreed: The share on which all members agree.
        right_agreed: Accuracy of the ensemble there; None without such samples.
        right_differing: Its accuracy on all others.
        sure_wrong: The share that it gets wrong with more than :data:`SURE`.
        member_sure_wrong: The same of a member on its own, their mean.
        errors: The ensemble's error among its surest answers, by :data:`SHARES`.
        member_errors: The same of a member on its own, their mean.
    """

    data: str
    samples: int
    agreed: float
    right_agreed: float | None
    right_differing: float | None
    sure_wrong: float
    member_sure_wrong: float
    errors: Sequence[float]
    member_errors: Sequence[float]


@dataclass(frozen=True)
class Picture:
    """One sample and what is said about it."""

    data: str  # such as "fog/3", "sketch/0", or "clean"
    row: int  # its place there
    label: str  # its class
    predictions: Sequence[str]  # the class that each member chooses
    answer: str  # the class that the ensemble chooses
    png: str  # the image as a PNG file in base 64


@dataclass(frozen=True)
class Gallery:
    """What a page shows of an ensemble's answers."""

    answers: Sequence[Answers] = ()  # one per data set, clean ones first
    # Of images, damaged ones if there are any: first those on which members agree.
    pictures: Sequence[Picture] = ()


def write_gallery(
    folder: Path,
    test: Dataset[Any],
    shifted: Mapping[Any, Dataset[Any]] | None = None,
) -> None:
    """Write what a page shows of the answers whose logits lie in a folder.

    Pictures of shifted data that are not given now stay as they are. There is nothing
    to show unless members choose one class for each sample.
    """
    document = tensors_document(file_of(folder, CLEAN, LOGITS))
    rule, task = document["rule"], read_task(document["task"])
    found = Gallery()
    if task.choices(LogitRuns.open(folder).array.shape) is not None:
        cells = _cells(folder)
        answers = [
            answers_on(name, _runs(folder, own), rule) for name, own in cells.items()
        ]
        there = {_place(cell) for own in cells.values() for cell in own} - {CLEAN}
        shown = [p for p in read_gallery(folder).pictures if p.data in there]
        if shifted or not shown:
            shown = _pictures(folder, test, Shifts.of(shifted), rule)
        found = Gallery(answers, shown)
    write_document(folder / FILE, KIND, asdict(found))


def read_gallery(folder: Path) -> Gallery:
    """Read what a page shows of the answers in a folder; nothing without its file."""
    file = folder / FILE
    if not file.is_file():
        return Gallery()
    document = read_document(file, KIND)
    with reading(file, "a gallery"):
        answers = tuple(Answers(**each) for each in document["answers"])
        pictures = tuple(Picture(**each) for each in document["pictures"])
        return Gallery(answers, pictures)


def _cells(folder: Path) -> dict[str, list[Cell | None]]:
    """Return what stored labeled data consist of, by their names."""
    cells: dict[str, list[Cell | None]] = {CLEAN: [None]}
    for name in names_in(folder, LOGITS):
        found = tensors_document(file_of(folder, name, LOGITS))["cells"]
        if name != CLEAN and found:
            cells[name] = [(kind, severity) for kind, severity in found]
    return cells


def _place(cell: Cell | None) -> str:
    return CLEAN if cell is None else f"{cell[0]}/{cell[1]}"


def _runs(
    folder: Path, cells: Sequence[Cell | None]
) -> Iterator[tuple[Tensor, Tensor]]:
    for cell in cells:
        for logits, labels in LogitRuns.open(folder, cell).read():
            assert labels is not None
            yield logits, labels


def answers_on(name: str, runs: Iterable[tuple[Tensor, Tensor]], rule: Rule) -> Answers:
    """Return how far the answers on some data can be trusted.

    Args:
        name: What the data are called.
        runs: Logits ``(members, samples, classes)`` and labels.
        rule: How members are combined.
    """
    parts = []
    for logits, labels in runs:
        alone = [logits, *logits.split(1)]
        doubts = torch.stack([ood_scores(each, [SCORE])[SCORE] for each in alone])
        called = logits.argmax(-1)
        said = torch.stack([ensemble_predictions(logits, rule=rule), *called])
        parts.append((doubts, said != labels, (called == called[0]).all(0)))
    doubts, wrong, agreed = (torch.cat(each, -1) for each in zip(*parts, strict=True))
    sure = (wrong & (doubts.exp() < 1 - SURE)).double().mean(1)
    places = [max(1, round(share * wrong.shape[1])) - 1 for share in SHARES]
    curves = torch.stack(
        [
            SelectiveCurve().value(-d, ~w).risk
            for d, w in zip(doubts, wrong, strict=True)
        ]
    )[:, places].double()

    def right(where: Tensor) -> float | None:
        return float((~wrong[0, where]).double().mean()) if bool(where.any()) else None

    return Answers(
        name,
        wrong.shape[1],
        float(agreed.double().mean()),
        *(right(agreed), right(~agreed)),
        *(float(sure[0]), float(sure[1:].mean())),
        *(curves[0].tolist(), curves[1:].mean(0).tolist()),
    )


def _evenly(places: Sequence[Any], count: int, phase: float = 0.5) -> list[Any]:
    """Return so many of some places, spread over all of them, from a phase on."""
    few = min(count, len(places))
    return [places[int((n + phase) * len(places) / few)] for n in range(few)]


def _pictures(
    folder: Path, test: Dataset[Any], shifts: Shifts, rule: Rule
) -> list[Picture]:
    """Return samples on which members agree, then some on which they differ."""
    several: Sequence[Cell | None] = [*shifts.copies] or [*shifts] or [None]
    cells, each = _evenly(several, EACH), -(-EACH // min(EACH, len(several)))
    text = partial(class_name, test)
    sides: tuple[list[Picture], list[Picture]] = ([], [])
    for number, cell in enumerate(cells):
        phase = (number + 0.5) / len(cells)  # samples may be in order of their classes
        data, stored = (
            test if cell is None else shifts[cell],
            LogitRuns.open(folder, cell),
        )
        if not shows_pictures(data):
            return []
        logits = torch.cat([logits for logits, _ in stored.read()], 1)
        called, answers = logits.argmax(-1), ensemble_predictions(logits, rule=rule)
        agreed = (called == called[0]).all(0)
        for side, where in zip(sides, (agreed, ~agreed), strict=True):
            rows = torch.tensor(
                _evenly(where.nonzero().flatten().tolist(), each, phase)
            ).long()
            images, labels = images_at(data, rows) if len(rows) else (), stored.labels
            assert labels is not None
            for row, image in zip(rows.tolist(), images, strict=True):
                said = tuple(map(text, called[:, row]))
                known = text(labels[row]), said, text(answers[row]), png(image)
                side.append(Picture(_place(cell), row, *known))
    return [picture for side in sides for picture in side[:EACH]]


def shows_pictures(dataset: Dataset[Any]) -> bool:
    """Return whether a data set holds images that can be shown."""
    inputs = _inputs(dataset, torch.tensor([0]))
    return isinstance(inputs, Tensor) and inputs.ndim == 4 and inputs.shape[1] in (1, 3)


def class_name(dataset: Dataset[Any], label: Tensor) -> str:
    """Return what a class is called."""
    source = whole(dataset)
    names = source.classes if isinstance(source, Arrays | StoredData) else ()
    return names[int(label)] if 0 <= int(label) < len(names) else str(int(label))


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


def png(image: Tensor) -> str:
    """Return a small image as a PNG file in base 64."""
    from PIL import Image

    pixels = (image * 255).round().byte().permute(1, 2, 0).numpy()
    picture = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    picture.thumbnail((SIDE, SIDE))
    buffer = BytesIO()
    picture.save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode("ascii")
