"""New samples, what they are called, and predictions of all that can be read.

A row of a table is called by its place in the file and by columns that are carried
over, an image by its file. Images that cannot be read are left out, and named.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch.utils.data import Dataset

from tepui.core.checks import not_among, require
from tepui.data import ImageFiles, Table
from tepui.data.image_files import UnreadableImageError, unreadable
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.prediction_file import check_new, write_predictions
from tepui.evaluation.shards import (
    PLAN,
    BegunOtherwiseError,
    ShardedPredictions,
    predict_shards,
)
from tepui.metrics.held_out_scores import (
    LEVEL,
    in_words,
    objections,
    too_few,
    unfamiliar_at,
)

Made = TypeVar("Made")


@dataclass(frozen=True)
class NewSamples:
    """Samples to predict.

    Attributes:
        data: The samples.
        named: What each is called, by column.
        said: What is missing of them, in words.
    """

    data: Dataset[Any]
    named: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    said: Sequence[str] = ()


class Written(NamedTuple):
    """Predictions in a file.

    Attributes:
        path: The file.
        samples: How many samples are predicted.
        left_out: Why images could not be read, by their files.
        said: What there is to know of the samples, in words.
    """

    path: Path
    samples: int
    left_out: dict[Path, str]
    said: list[str]


def names_in(
    data: Dataset[Any], carry: str | Sequence[str] = ()
) -> dict[str, list[Any]]:
    """Return what samples are called, by column.

    Args:
        data: The samples.
        carry: Columns of the table to carry over.

    Raises:
        ValueError: If there is no such column.
    """
    carried = [carry] if isinstance(carry, str) else [*carry]
    if not isinstance(data, Table) or len(data.frame) != len(data):
        require(not carried, "carry", "be left out for what is no table", carried)
        files = data.files if isinstance(data, ImageFiles) else ()
        return {"name": [*map(str, files)]} if files else {}
    if unknown := [name for name in carried if name not in data.frame]:
        raise ValueError(not_among("carry", unknown, data.frame))
    cells = data.frame[carried].astype(object)
    named: dict[str, list[Any]] = cells.where(cells.notna(), None).to_dict("list")
    return {"row": data.frame.index.tolist()} | named


def of_readable(
    samples: NewSamples, predict: Callable[[Dataset[Any]], Made]
) -> tuple[Made, NewSamples, dict[Path, str]]:
    """Predict all samples; if images among them cannot be read, the others.

    All images are looked through only once one could not be read, or predictions that
    were begun are not of all.

    Returns:
        What was predicted, for which samples, and why the others were left out.
    """
    data = samples.data
    try:
        return predict(data), samples, {}
    except (UnreadableImageError, BegunOtherwiseError):
        if not isinstance(data, ImageFiles):
            raise
        found = unreadable(data.files, data.frame, data.gray)
        left_out = {file: found[file] for file in data.files if file in found}
        if len(left_out) in (0, len(data)):
            raise
    rows = [row for row, file in enumerate(data.files) if file not in left_out]
    named = {title: [each[n] for n in rows] for title, each in samples.named.items()}
    rest = NewSamples(data.subset(rows), named, samples.said)
    return predict(rest.data), rest, left_out


def write_predicted(
    ensemble: Ensemble,
    samples: NewSamples,
    file: Path,
    *,
    level: float = LEVEL,
    overwrite: bool = False,
    **how: Any,
) -> Written:
    """Write what an ensemble predicts for new samples into a file.

    Parts that are done lie beside it until all are; the same call goes on after a kill.

    Args:
        ensemble: What predicts.
        samples: The samples.
        file: The file, see :func:`write_predictions`.
        level: As that of :func:`write_predictions`.
        overwrite: Replace the file, and parts of another call.
        **how: As :func:`predict_shards` takes it.
    """
    check_new(file, level, overwrite)
    parts = file.with_name(f"{file.name}.parts")
    names = [each.name for each in parts.iterdir()] if parts.is_dir() else []
    if names and not any(name.lstrip(".").startswith(PLAN) for name in names):
        raise FileExistsError(
            f"{parts}, where parts are kept until all are done, holds other files; "
            "name another --out"
        )

    def predict(data: Dataset[Any]) -> ShardedPredictions:
        try:
            return predict_shards(ensemble, data, parts, **how)
        except UnreadableImageError:
            shutil.rmtree(parts, ignore_errors=True)  # those of fewer images begin
            raise

    work = partial(of_readable, samples, predict)
    try:
        shards, samples, left_out = work()
    except BegunOtherwiseError:
        if not overwrite:
            raise
        shutil.rmtree(parts)
        shards, samples, left_out = work()
    write_predictions(shards, file, named=samples.named, level=level, overwrite=True)
    said = [*samples.said, *_unfamiliar_rows(shards, level)]
    shutil.rmtree(parts)
    return Written(file, shards.samples, left_out, said)


def _unfamiliar_rows(shards: ShardedPredictions, level: float) -> list[str]:
    """Return how many rows look unlike the training data, if that is known."""
    by = shards.unfamiliarity_by
    if not by:
        return []
    shares, objecting = [], torch.zeros(len(by), dtype=torch.long)
    for part in shards.shards():
        shares.append(part["unfamiliarity"].clone())
        called = unfamiliar_at(level, shares[-1], shards.held_out)
        objecting += objections(level, part["surprises"], called).sum(0)
    counts = dict(zip(by, objecting.tolist(), strict=True))
    few = too_few(level, shards.held_out)
    said = in_words(level, torch.cat(shares), counts, shards.held_out)
    return said if few is None else [*said, few]
