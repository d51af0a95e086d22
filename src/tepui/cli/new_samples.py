"""The samples that ``tepui predict`` is asked about, as members see them.

Images that cannot be read are left out of a prediction, and named.
"""

import shutil
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.printable import printable
from tepui.core.storage import read_document, write_document
from tepui.data import ImageFiles
from tepui.data.image_files import UnreadableImageError, naming_all, unreadable
from tepui.evaluation.shards import PLAN, ShardedPredictions
from tepui.metrics.held_out_scores import in_words, objections, too_few, unfamiliar_at
from tepui.tasks.named import read_task
from tepui.training import Run

LEFT_OUT = "left_out.json"
KIND = "images left out"
# The exit status where some inputs have no prediction.
INCOMPLETE = 1


class Predicted(NamedTuple):
    """What was predicted, for which samples, and what was left out for which reason."""

    shards: ShardedPredictions
    samples: Dataset[Any]
    left_out: dict[Path, str]


def check_ours(parts: Path) -> None:
    """Refuse a folder of other files, since it would be removed at the end."""
    names = [file.name for file in parts.iterdir()] if parts.is_dir() else []
    ours = any(name.lstrip(".").startswith((PLAN, LEFT_OUT)) for name in names)
    if names and not ours:
        raise FileExistsError(
            f"{parts}, where parts are kept until all are done, holds other files; "
            "name another --out"
        )


def predict_readable(
    samples: Dataset[Any],
    parts: Path,
    predict: Callable[[Dataset[Any]], ShardedPredictions],
) -> Predicted:
    """Predict all samples; if images among them cannot be read, the others.

    All images are looked through only once one could not be read. Which ones were left
    out is written down beside the parts, so that the same command goes on.
    """
    if not isinstance(samples, ImageFiles):
        return Predicted(predict(samples), samples, {})
    left_out = _left_out_before(samples, parts)
    readable = _without(samples, left_out)
    try:
        with naming_all(samples):
            return Predicted(predict(readable), readable, left_out)
    except UnreadableImageError as error:
        own = {*samples.files}
        left_out = {file: why for file, why in error.reasons.items() if file in own}
        if len(left_out) in (0, len(samples)):
            raise
        shutil.rmtree(parts, ignore_errors=True)
        names = {"files": [str(file) for file in left_out]}
        write_document(parts / LEFT_OUT, KIND, names)
    readable = _without(samples, left_out)
    return Predicted(predict(readable), readable, left_out)


def end_if_left_out(left_out: dict[Path, str], count: int) -> None:
    """Name what has no prediction on standard error, and end with a status for it."""
    if not left_out:
        return
    total = count + len(left_out)
    sys.stderr.write(
        f"tepui: {len(left_out)} of {total} images cannot be read and have no "
        "prediction:\n"
    )
    sys.stderr.writelines(f"  {printable(reason)}\n" for reason in left_out.values())
    raise SystemExit(INCOMPLETE)


def _left_out_before(samples: ImageFiles, parts: Path) -> dict[Path, str]:
    """Return what a killed command left out, if it still cannot be read."""
    if not (parts / LEFT_OUT).is_file():
        return {}
    names = {*read_document(parts / LEFT_OUT, KIND)["files"]}
    files = [file for file in samples.files if str(file) in names]
    found = unreadable(files, samples.frame, samples.gray)
    if len(found) < len(names):
        shutil.rmtree(parts)
        return {}
    return found


def _without(samples: ImageFiles, left_out: Collection[Path]) -> ImageFiles:
    """Return the images that are not left out."""
    rows = [n for n, file in enumerate(samples.files) if file not in left_out]
    require(len(rows) > 0, "inputs", "hold an image that can be read", "none")
    return samples.subset(rows) if left_out else samples


def unfamiliar_rows(shards: ShardedPredictions, level: float, run: Run) -> list[str]:
    """Return how many rows look unlike the training data, or how to know, in words."""
    by = shards.unfamiliarity_by
    if not by:
        what = "which rows look unlike the training data"
        task = read_task(shards.task)
        if not task.judging(shards.members):
            return [f"{what} cannot be told"]
        options = "" if task.calibrations else " --coverage 0.9"
        if run.config.get("validation") is None:
            options += " --held-out test"
        return [f"to learn {what}: tepui calibrate {run.path}{options}"]
    shares, objecting = [], torch.zeros(len(by), dtype=torch.long)
    for part in shards.shards():
        shares.append(part["unfamiliarity"].clone())
        called = unfamiliar_at(level, shares[-1], shards.held_out)
        objecting += objections(level, part["surprises"], called).sum(0)
    counts = dict(zip(by, objecting.tolist(), strict=True))
    few = too_few(level, shards.held_out)
    said = in_words(level, torch.cat(shares), counts, shards.held_out)
    return said if few is None else [*said, few]
