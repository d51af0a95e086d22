"""``tepui predict``: what a trained ensemble says of new data, in a file."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

from tepui.cli.console import console
from tepui.cli.datasets import Data, built, place_of
from tepui.cli.members import named_ensemble
from tepui.core.checks import require
from tepui.core.precision import Precision
from tepui.data import Arrays, ImageFiles
from tepui.data.preparation import NO_LABEL, Preparation
from tepui.ensembles.inputs import files_of
from tepui.ensembles.loading import preparation_in
from tepui.evaluation.prediction_file import check_format, write_predictions
from tepui.evaluation.shards import predict_shards
from tepui.evaluation.stored_detectors import read_detectors
from tepui.training.prepare import to_device
from tepui.training.run_folder import RunFolder

EXAMPLE = "tepui predict runs/sam photos --out predictions.csv"
PARTS = ".parts"


def predict(
    run: Path,
    inputs: Path | None = None,
    out: Path = Path("predictions.csv"),
    data: Data | None = None,
    model: Callable[[], nn.Module] | None = None,
    models: list[str] | None = None,
    extractor: str | None = None,
    probabilities: bool = False,
    rule: Literal["probability", "logit", "vote"] = "probability",
    batch_size: int = 256,
    shard_size: int = 8192,
    device: str | None = None,
    precision: Precision | None = None,
    workers: int = 0,
    overwrite: bool = False,
) -> None:
    """Write what a trained ensemble predicts for new data.

    Calibration, conformal sets and detectors of features that tepui calibrate saved
    with the ensemble are applied.

    Args:
        run: The folder of a run, or of a saved ensemble.
        inputs: An image, a folder of images, or an array of numbers (.npy), prepared as
            the training data were; or the name of a data set, such as CIFAR10, whose
            test part is used.
        out: The file: .csv, .parquet or .safetensors. Parts that are done lie beside it
            until all are; the same command goes on after a kill.
        data: A data set with options, instead of inputs, such as: --data ImageFolder
            --data.path photos
        model: The members' architecture, needed only for models tepui does not know.
        models: One architecture per member instead, where they differ.
        extractor: What made the extractor that members share, needed only where it is
            your own: as --extractor of tepui train named it.
        probabilities: Write the probability of every class too.
        rule: How members are combined.
        batch_size: Samples that go through a member at once.
        shard_size: Samples per part.
        device: Where to compute; a GPU if there is one.
        precision: What members compute in on a GPU; tf32 by default, or float32 if the
            run was trained in it.
        workers: Processes that load data not held in tensors.
        overwrite: Replace an existing file.
    """
    given = (inputs is None) != (data is None)
    require(given, "inputs", "be given, or --data", inputs)
    check_format(out)
    if out.exists() and not overwrite:
        raise FileExistsError(f"{out} exists; pass --overwrite to replace it")
    known = preparation_in(run)
    samples = _read(inputs, known) if data is None else built(data)
    samples = samples if known is None else known.dataset(samples)
    if isinstance(samples, ImageFiles):
        samples = samples.in_batches()
    ensemble = named_ensemble([run], model, models, samples, extractor)
    to_device(ensemble, torch.device(place_of(device)))
    parts = out.with_name(out.name + PARTS)
    shards = predict_shards(
        ensemble,
        samples,
        parts,
        shard_size=shard_size,
        rule=rule,
        batch_size=batch_size,
        workers=workers,
        precision=precision or RunFolder(run).exam_precision(),
        logits_in="float32" if probabilities else "none",
        detectors=read_detectors(run, ensemble),
    )
    names = _names(samples)
    classes = () if known is None else known.classes
    write_predictions(shards, out, names=names, classes=classes, overwrite=True)
    shutil.rmtree(parts)
    count = "1 prediction" if shards.samples == 1 else f"{shards.samples} predictions"
    console().print(f"{count} written to {out}")


def _read(inputs: Path | None, preparation: Preparation | None) -> Dataset[Any]:
    """Return the samples that a path names, prepared as the training data were."""
    rule = "know how its training data were prepared to take raw inputs"
    require(preparation is not None, "run", rule, "it does not")
    assert inputs is not None
    assert preparation is not None
    if inputs.suffix == ".npy":
        numbers = torch.from_numpy(np.load(inputs, allow_pickle=False))
        if numbers.is_floating_point():
            numbers = numbers.float()
        prepared = preparation.tensors(numbers)
        return Arrays(prepared, torch.full((len(numbers),), NO_LABEL))
    return preparation.images(files_of(inputs) or [])


def _names(samples: Dataset[Any]) -> list[str]:
    return list(map(str, samples.files)) if isinstance(samples, ImageFiles) else []
