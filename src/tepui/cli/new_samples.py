"""The samples that ``tepui predict`` is asked about, as members see them.

Images that cannot be read are left out of a prediction, and named.
"""

import shutil
import sys
from collections.abc import Callable, Collection
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple, final

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.cli import datasets
from tepui.cli.asked import kind_of, options_given, remembered
from tepui.core.checks import require
from tepui.core.storage import read_document, write_document
from tepui.data import Arrays, ImageFiles, Table
from tepui.data.arrays import Inputs
from tepui.data.class_names import class_names
from tepui.data.files.numpy_files import rows_in
from tepui.data.files.origins import require_file
from tepui.data.files.table_rows import read_table
from tepui.data.image_files import UnreadableImageError, naming_all, unreadable
from tepui.data.loading import length, targets_of
from tepui.data.numbered_as import numbered_as
from tepui.data.preparation import NO_LABEL, Preparation
from tepui.ensembles.inputs import files_of
from tepui.ensembles.loading import preparation_in, task_in
from tepui.evaluation.shards import PLAN, ShardedPredictions
from tepui.metrics.held_out_scores import in_words, objections, too_few, unfamiliar_at
from tepui.tasks.base import Task
from tepui.tasks.named import read_task

REMEDY = "name a data set that prepares them, --data mypackage.MyData"
FOREIGN = "labels are left out: they number other classes than the run's"
LEFT_OUT = "left_out.json"
KIND = "images left out"
# The exit status where some inputs have no prediction.
INCOMPLETE = 1


def new_samples(
    inputs: Path | None, data: datasets.Data | None, run: Path
) -> tuple[Dataset[Any], list[str]]:
    """Return samples for a run, and in words what is missing of them.

    Args:
        inputs: A file or folder.
        data: What makes a data set instead; by default that of the run.
        run: The folder of the run.
    """
    if data is not None and kind_of(data) is Table and datasets.is_other(data, run):
        rows = _labeled_rows(data, run)
        if rows is not None:
            return rows, [*rows.gaps.words]
        inputs, data = Path(options_given(data)["path"]), None
    prepared = preparation_in(run)
    if inputs is not None:
        return _read(inputs, prepared, run)
    known = prepared or Preparation()
    if data is None:
        samples = datasets.tested_part(None, run)
    else:
        samples = numbered_as(
            datasets.normalized_for(run, datasets.built(data)), known.classes
        )
    foreign = foreign_classes(samples, known.classes, task_in(run))
    said = [*samples.gaps.words] if isinstance(samples, Table) else []
    samples = samples if prepared is None else prepared.dataset(samples)
    if isinstance(samples, ImageFiles):
        samples = samples.in_batches()
    return (unlabeled(samples), [*said, FOREIGN]) if foreign else (samples, said)


def _labeled_rows(data: datasets.Data, run: Path) -> Table | None:
    """Return all rows of another table with their targets; None if it has none."""
    learned = remembered(run, "data")
    if kind_of(learned) is not Table:
        return None
    given, own = options_given(data), options_given(learned)
    datasets.check_read_alike(own["target"], given, own, datasets.DATA)
    if own["target"] not in read_table(Path(given["path"])).cells:
        return None
    return datasets.rows_like(
        datasets.tested_part(None, run), given, own, datasets.DATA
    )


def _read(
    inputs: Path, known: Preparation | None, run: Path
) -> tuple[Dataset[Any], list[str]]:
    """Return the samples that a path names, prepared as the training data were."""
    rule = f"be left out, since {run} does not say how its training data were prepared"
    require(known is not None, "inputs", f"{rule}: {REMEDY}", str(inputs))
    assert known is not None
    if known.columns is not None:
        rows = read_table(inputs)
        return _unlabeled(known.table(rows)), [*known.gaps(rows).words]
    if inputs.suffix == ".npy":
        require_file(inputs)
        return _unlabeled(known.tensors(rows_in(inputs))), []
    return known.images(files_of(inputs) or []), []


def _unlabeled(inputs: Inputs) -> Arrays:
    assert isinstance(inputs, Tensor), "arrays and tables are one tensor"
    return Arrays(inputs, torch.full((len(inputs),), NO_LABEL))


def foreign_classes(
    dataset: Dataset[Any], classes: tuple[str, ...], task: Task | None
) -> bool:
    """Return whether labels of a data set number other classes than an ensemble's.

    Data without names of classes, and labels of other tasks, are not told apart.
    """
    names, targets = class_names(dataset), targets_of(dataset)
    of_samples = targets is None or targets.ndim == 1
    choice = (task is None or bool(task.chooses)) and of_samples
    return choice and bool(names and classes) and names != classes


def unlabeled(dataset: Dataset[Any]) -> Dataset[Any]:
    """Return the same samples without labels (-1)."""
    none = torch.full((length(dataset),), NO_LABEL)
    if isinstance(dataset, Arrays):
        return Arrays(dataset.inputs, none, dataset.normalize)
    if isinstance(dataset, ImageFiles):
        files = copy(dataset)
        files.targets = none
        return files
    return _Unlabeled(dataset)


@final
class _Unlabeled(Dataset[Any]):
    """Samples of any data set, each without its label."""

    def __init__(self, dataset: Dataset[Any]) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return length(self.dataset)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.dataset[index][0], NO_LABEL


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
    sys.stderr.writelines(f"  {reason}\n" for reason in left_out.values())
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


def unfamiliar_rows(shards: ShardedPredictions, level: float, run: Path) -> list[str]:
    """Return how many rows look unlike the training data, or how to know, in words."""
    by = shards.unfamiliarity_by
    if not by:
        what = "which rows look unlike the training data"
        task = read_task(shards.task)
        if not task.judging(shards.members):
            return [f"{what} cannot be told"]
        options = "" if task.calibrations else " --coverage 0.9"
        if datasets.recorded_training(run).get("validation") is None:
            options += " --held-out test"
        return [f"to learn {what}: tepui calibrate {run}{options}"]
    shares, objecting = [], torch.zeros(len(by), dtype=torch.long)
    for part in shards.shards():
        shares.append(part["unfamiliarity"].clone())
        called = unfamiliar_at(level, shares[-1], shards.held_out)
        objecting += objections(level, part["surprises"], called).sum(0)
    counts = dict(zip(by, objecting.tolist(), strict=True))
    few = too_few(level, shards.held_out)
    said = in_words(level, torch.cat(shares), counts, shards.held_out)
    return said if few is None else [*said, few]
