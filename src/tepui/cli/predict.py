"""``tepui predict``: what a trained ensemble says of new data, in a file."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.cli.console import console
from tepui.cli.datasets import (
    DATA,
    Data,
    built,
    normalized_for,
    options_given,
    place_of,
    recorded_training,
    tested_part,
)
from tepui.cli.files_named import READ, check_no_table
from tepui.cli.foreign_labels import foreign_classes, unlabeled
from tepui.cli.known import known_classes
from tepui.cli.members import named_ensemble
from tepui.cli.mistakes import nearest
from tepui.cli.other_rows import check_read_alike, rows_like
from tepui.cli.remembered import kind_of, remembered_data
from tepui.cli.runs_named import check_replaced, check_run
from tepui.cli.tested import is_other
from tepui.cli.unreadable import LEFT_OUT, end_if_left_out, predict_readable
from tepui.core.checks import require
from tepui.core.counted import counted
from tepui.core.precision import Precision
from tepui.core.task import GAUSSIAN
from tepui.data import Arrays, ImageFiles, Table
from tepui.data.arrays import Inputs
from tepui.data.files.numpy_files import rows_in
from tepui.data.files.origins import require_file
from tepui.data.files.table_rows import read_table
from tepui.data.numbered_as import numbered_as
from tepui.data.preparation import NO_LABEL, Preparation
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.inputs import files_of
from tepui.ensembles.loading import preparation_in
from tepui.evaluation.prediction_file import check_format, write_predictions
from tepui.evaluation.sample_statistics import COVERAGE
from tepui.evaluation.shards import (
    KIND,
    PLAN,
    BegunOtherwiseError,
    ShardedPredictions,
    predict_shards,
)
from tepui.metrics import ConformalIntervals, ConformalSets, FeatureScore
from tepui.metrics.held_out_scores import (
    LEVEL,
    check_level,
    in_words,
    objections,
    too_few,
    unfamiliar_at,
)
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
    level: float = LEVEL,
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
        inputs: An image, a folder of images, an array of numbers (.npy) or a table
            (.csv), prepared as the training data were; or the name of a data set, such
            as CIFAR10, whose test part is used. By default the test part of what the
            run was trained on.
        out: The file: .csv, .parquet or .safetensors. Parts that are done lie beside it
            until all are; the same command goes on after a kill. sample counts the rows
            of the file from 0, in the order of the inputs. prediction is the number of
            a class, counted from 0, and class its name. Quantiles and bounds carry
            their levels: quantile_0.05, lower_0.9. Of numbers, mean, std and all bounds
            are in the target's own unit, aleatoric and epistemic are variances, in its
            square. lower_0.9 and upper_0.9 hold 90 % if the noise that members predict
            is right; conformal_lower_… and conformal_upper_… hold what tepui calibrate
            --coverage promised. target is left out where labels number other classes
            than the run's. Images that cannot be read are left out and named, and
            the exit status is 1.
        data: A data set with options, instead of inputs, such as: --data ImageFolder
            --data.path photos. Of another table (Table:FILE.csv) all rows are read by
            the columns of the run, with their targets if they have any.
        model: The members' architecture, needed only for models tepui does not know.
        models: One architecture per member instead, where they differ.
        extractor: What made the extractor that members share, needed only where it is
            your own: as --extractor of tepui train named it.
        probabilities: Write the probability of every class too.
        level: Call a row unfamiliar if this share of the samples that tepui calibrate
            was given looks more familiar, by several scores together; objections names
            those that say so. Of rows like those about 1 - level are called
            so too: one in a hundred by default, and of n samples one in n + 1 at the
            least (0.99 wants 99 samples).
        rule: How members are combined.
        batch_size: Samples that go through a member at once.
        shard_size: Samples per part.
        device: Where to compute; a GPU if there is one.
        precision: What members compute in on a GPU; tf32 by default, or float32 if the
            run was trained in it.
        workers: Processes that load data not held in tensors.
        overwrite: Replace an existing file, and begin anew where parts of another
            command lie beside it; parts of the same command are gone on with.
    """
    both = inputs is not None and data is not None
    require(not both, "inputs", "be left out with --data", str(inputs))
    check_format(out)
    check_level(level)
    check_run(run)
    check_replaced(out, KIND, overwrite)
    parts = out.with_name(out.name + PARTS)
    _check_ours(parts)
    labeled = None
    if data is not None and kind_of(data) is Table and is_other(data, run):
        labeled = _labeled_rows(data, run)
        if labeled is None:
            inputs, data = Path(options_given(data)["path"]), None
    prepared = preparation_in(run)
    known = prepared or Preparation()
    gaps: tuple[str, ...] = ()
    if labeled is not None:
        samples: Dataset[Any] = labeled
    elif inputs is not None:
        samples, gaps = _read(inputs, prepared, run)
    elif data is None:
        samples = tested_part(None, run)
    else:
        samples = numbered_as(normalized_for(run, built(data)), known.classes)
    whole = samples
    samples = samples if prepared is None else known.dataset(samples)
    if isinstance(samples, ImageFiles):
        samples = samples.in_batches()
    ensemble = named_ensemble([run], model, models, samples, extractor)
    to_device(ensemble, torch.device(place_of(device)))
    foreign = foreign_classes(whole, known.classes, ensemble.task)
    samples = unlabeled(samples) if foreign else samples
    predicting = partial(
        predict_shards,
        ensemble,
        out=parts,
        shard_size=shard_size,
        rule=rule,
        batch_size=batch_size,
        workers=workers,
        precision=precision or RunFolder(run).exam_precision(),
        logits_in="float32" if probabilities else "none",
    )
    try:
        found = predict_readable(samples, parts, predicting)
    except BegunOtherwiseError:
        if not overwrite:
            raise
        shutil.rmtree(parts)
        found = predict_readable(samples, parts, predicting)
    shards, samples, left_out = found
    about: dict[str, Any] = {"classes": known.classes, "units": known.units}
    about |= {"names": _names(samples), "level": level}
    write_predictions(shards, out, **about, overwrite=True)
    counts = _counts(shards, ensemble, level)
    shutil.rmtree(parts)
    count = counted(shards.samples, "prediction")
    own = inputs is None and data is None
    of = " for the test data of the run" if own else ""
    gaps = samples.gaps.words if isinstance(samples, Table) else gaps
    left = "labels are left out: they number other classes than the run's"
    said = [*gaps, left if foreign else "", _units(ensemble), _intervals(ensemble)]
    said += [_empty_sets(shards, counts), *_judged(shards, counts, level, run)]
    for line in (f"{count}{of} written to {out}", *filter(None, said)):
        console().print(line)
    doubtful = "the lowest confidence" if _has_confidence(shards) else "high epistemic"
    unfamiliar = "unfamiliar rows and " if shards.unfamiliarity_by else ""
    rows = f"{unfamiliar}the rows of {doubtful}"
    console().print(f"next: look at {rows} in {out} first")
    end_if_left_out(left_out, shards.samples)


def _labeled_rows(data: Data, run: Path) -> Table | None:
    """Return all rows of another table with their targets; None if it has none."""
    learned = remembered_data(run)
    if kind_of(learned) is not Table:
        return None
    given, own = options_given(data), options_given(learned)
    check_read_alike(own["target"], given, own, DATA)
    if own["target"] not in read_table(Path(given["path"])).cells:
        return None
    return rows_like(tested_part(None, run), given, own, DATA)


def _check_ours(parts: Path) -> None:
    """Refuse a folder of other files, since it would be removed at the end."""
    names = [file.name for file in parts.iterdir()] if parts.is_dir() else []
    ours = any(name.lstrip(".").startswith((PLAN, LEFT_OUT)) for name in names)
    if names and not ours:
        raise FileExistsError(
            f"{parts}, where parts are kept until all are done, holds other files; "
            "name another --out"
        )


class Counts(NamedTuple):
    """What says how many rows need a second look."""

    unfamiliarity: Tensor  # of each row, if it is known
    objecting: list[int]  # to how many rows each score objects
    empty: int  # no class is in their set


def _counts(shards: ShardedPredictions, ensemble: Ensemble, level: float) -> Counts:
    """Count rows, in one pass over the parts if there is anything to count."""
    of_classes = shards.task == "classification"
    sets = of_classes and isinstance(ensemble.conformity, ConformalSets)
    judged, empty = bool(shards.unfamiliarity_by), 0
    shares, objecting = [torch.empty(0)], []
    for part in shards.shards() if sets or judged else ():
        if judged:
            shares.append(part["unfamiliarity"].clone())
            called = unfamiliar_at(level, shares[-1], shards.held_out)
            objecting.append(objections(level, part["surprises"], called).sum(0))
        if sets:
            empty += int((~part["in_set"].any(dim=1)).sum())
    by = torch.stack(objecting).sum(0).tolist() if objecting else []
    return Counts(torch.cat(shares), by, empty)


def _units(ensemble: Ensemble) -> str:
    """Say what numbers and their variances are measured in, where there are some."""
    spreads = {
        "regression": "epistemic, the variance over members (std is its root)",
        "gaussian": "aleatoric and epistemic, variances (std is the root of their sum)",
        "quantiles": "epistemic, the variance over members",
    }
    name = "" if ensemble.task is None else ensemble.task.name
    if name not in spreads:
        return ""
    return f"answers are in the target's unit; in its square: {spreads[name]}"


def _intervals(ensemble: Ensemble) -> str:
    """Say what the intervals of numbers are, where there are some."""
    said = []
    if ensemble.task == GAUSSIAN:
        bounds = f"lower_{COVERAGE} and upper_{COVERAGE}"
        said.append(
            f"{bounds}: {100 * COVERAGE:g} % by the noise that the members predict"
        )
    if isinstance(ensemble.conformity, ConformalIntervals):
        level = ensemble.conformity.coverage
        share = f"{100 * level:g} %"
        bounds = f"conformal_lower_{level} and conformal_upper_{level}"
        said.append(f"{bounds}: {share} by the held-out data of tepui calibrate")
    return "; ".join(said)


def _empty_sets(shards: ShardedPredictions, counts: Counts) -> str:
    """Say how many rows no class fits, if there are some."""
    rows = f"{counts.empty} of {counted(shards.samples, 'row')}"
    have = "has" if 1 in (counts.empty, shards.samples) else "have"
    why = "no class is as likely there as classes of held-out samples are"
    said = f"{rows} {have} an empty set (in_set columns): {why}"
    return said if counts.empty else ""


def _judged(
    shards: ShardedPredictions, counts: Counts, level: float, run: Path
) -> list[str]:
    """Say how many rows are unfamiliar, or what to run to know."""
    by = shards.unfamiliarity_by
    kept = recorded_training(run).get("validation") is not None
    held_out = "" if kept else " --held-out test"
    if by:
        objecting = dict(zip(by, counts.objecting, strict=True))
        said = in_words(level, counts.unfamiliarity, objecting, shards.held_out)
        few = too_few(level, shards.held_out)
        said += [] if few is None else [few]
        blind = shards.task == "classification" and not {*by} & {
            *get_args(FeatureScore)
        }
        # Members extrapolate alike, and are sure of what lies far out.
        typed = f"tepui calibrate {run}{held_out} --detectors"
        return [*said, *([f"to find rows far out too: {typed}"] if blind else [])]
    what = "which rows look unlike the training data"
    if shards.task == "unknown":
        return [f"{what} cannot be told, since the loss names no task"]
    of_classes = _has_confidence(shards)
    if shards.members == 1 and not of_classes:
        return [f"{what} cannot be told of numbers by one member alone"]
    coverage = "" if of_classes else " --coverage 0.9"
    return [f"to learn {what}: tepui calibrate {run}{coverage}{held_out}"]


def _read(
    inputs: Path, preparation: Preparation | None, run: Path
) -> tuple[Dataset[Any], tuple[str, ...]]:
    """Return the samples that a path names, prepared as the training data were.

    With them, in words, cells of a table that the training rows do not explain.
    """
    rule = (
        f"be left out, since {run} does not say how its training data were prepared; "
        "name a data set that gives new samples as members learned from them: --data "
        "mypackage.MyData"
    )
    require(preparation is not None, "inputs", rule, str(inputs))
    assert preparation is not None
    if preparation.columns is not None:
        rule = "be a table (.csv), since the run learned from one"
        require(inputs.suffix.lower() in READ, "inputs", rule, str(inputs))
        rows = read_table(inputs)
        return _unlabeled(preparation.table(rows)), preparation.gaps(rows).words
    check_no_table(inputs)
    if not inputs.suffix and not inputs.exists():
        hint = nearest(
            str(inputs), [kind.__name__ for kind in known_classes()["--data"]]
        )
        raise FileNotFoundError(
            f"no image, folder of images or data set {inputs}{hint}"
        )
    if inputs.suffix == ".npy":
        require_file(inputs)
        return _unlabeled(preparation.tensors(rows_in(inputs))), ()
    return preparation.images(files_of(inputs) or []), ()


def _unlabeled(inputs: Inputs) -> Arrays:
    assert isinstance(inputs, Tensor), "arrays and tables are one tensor"
    return Arrays(inputs, torch.full((len(inputs),), NO_LABEL))


def _has_confidence(shards: ShardedPredictions) -> bool:
    return shards.task in ("classification", "multi_label")


def _names(samples: Dataset[Any]) -> list[str]:
    return list(map(str, samples.files)) if isinstance(samples, ImageFiles) else []
