"""The samples that ``tepui predict`` is asked about, as members see them."""

from copy import copy
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.cli.datasets import DATA, Data, built, normalized_for, tested_part
from tepui.cli.other_rows import check_read_alike, rows_like
from tepui.cli.remembered import kind_of, options_given, remembered
from tepui.cli.tested import is_other
from tepui.core.checks import require
from tepui.core.task import CLASSIFICATION, Task
from tepui.data import Arrays, ImageFiles, Table
from tepui.data.arrays import Inputs
from tepui.data.class_names import class_names
from tepui.data.files.numpy_files import rows_in
from tepui.data.files.origins import require_file
from tepui.data.files.table_rows import read_table
from tepui.data.loading import length, targets_of
from tepui.data.numbered_as import numbered_as
from tepui.data.preparation import NO_LABEL, Preparation
from tepui.ensembles.inputs import files_of
from tepui.ensembles.loading import preparation_in, task_in

REMEDY = "name a data set that prepares them, --data mypackage.MyData"
FOREIGN = "labels are left out: they number other classes than the run's"


def new_samples(
    inputs: Path | None, data: Data | None, run: Path
) -> tuple[Dataset[Any], list[str]]:
    """Return samples for a run, and in words what is missing of them.

    Args:
        inputs: A file or folder.
        data: What makes a data set instead; by default that of the run.
        run: The folder of the run.
    """
    if data is not None and kind_of(data) is Table and is_other(data, run):
        rows = _labeled_rows(data, run)
        if rows is not None:
            return rows, [*rows.gaps.words]
        inputs, data = Path(options_given(data)["path"]), None
    prepared = preparation_in(run)
    if inputs is not None:
        return _read(inputs, prepared, run)
    known = prepared or Preparation()
    if data is None:
        samples = tested_part(None, run)
    else:
        samples = numbered_as(normalized_for(run, built(data)), known.classes)
    foreign = foreign_classes(samples, known.classes, task_in(run))
    said = [*samples.gaps.words] if isinstance(samples, Table) else []
    samples = samples if prepared is None else prepared.dataset(samples)
    if isinstance(samples, ImageFiles):
        samples = samples.in_batches()
    return (unlabeled(samples), [*said, FOREIGN]) if foreign else (samples, said)


def _labeled_rows(data: Data, run: Path) -> Table | None:
    """Return all rows of another table with their targets; None if it has none."""
    learned = remembered(run, "data")
    if kind_of(learned) is not Table:
        return None
    given, own = options_given(data), options_given(learned)
    check_read_alike(own["target"], given, own, DATA)
    if own["target"] not in read_table(Path(given["path"])).cells:
        return None
    return rows_like(tested_part(None, run), given, own, DATA)


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
    choice = task in (None, CLASSIFICATION) and of_samples
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
