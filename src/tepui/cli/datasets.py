"""Data sets named on the command line: parts, corrupted copies, unfamiliar ones."""

import inspect
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch.utils.data import Dataset

from tepui import data as datasets
from tepui.cli.folders import say
from tepui.cli.members import is_saved
from tepui.cli.other_rows import rows_like
from tepui.cli.remembered import kind_of, options_given, remembered
from tepui.core.checks import one_of, require
from tepui.core.names import PLACES
from tepui.data import (
    ArrayFile,
    Arrays,
    Digits,
    GaussianNoise,
    Normalize,
    Table,
    UniformNoise,
    corrupted,
    corrupted_files,
    prepared_like,
    to_arrays,
)
from tepui.data.class_names import class_names, same_classes
from tepui.data.corruptions.copies import Corrupted
from tepui.data.files.corrupted_files import CorruptedFiles
from tepui.data.files.installing import located
from tepui.data.files.origins import Origin
from tepui.data.image_files import ImageFiles, UnreadableImageError
from tepui.data.loading import length
from tepui.data.numbered_as import numbered_as
from tepui.data.prepared_like import image_shape
from tepui.studies.recorded_options import extractor_of_comparison
from tepui.training.inputs import divided
from tepui.training.run_folder import RunFolder

Data = Callable[[], Dataset[Any]]

DATA = "--data"
OOD = "--ood"
SHIFTED = "--shifted"
NOISE = (UniformNoise, GaussianNoise)
# Classes of data that are made of tensors, and named by no path.
IN_MEMORY = ("Arrays", "TensorDataset")
# Where a run that trains heads alone keeps their run, and what they learn from.
HEADS = "heads"
FEATURES = "features"


def place_of(device: str | None) -> str:
    """Return the device asked for; by default a GPU if there is one."""
    return device or ("cuda" if torch.cuda.is_available() else "cpu")


def part(data: Data, *, train: bool) -> Dataset[Any]:
    """Return one part of a data set."""
    written = options_given(data).get("part")
    rule = "be left out: what is trained on must not be tested on"
    require(written != "all", "part", rule, written)
    return _made(data, train=train)


def data_for(data: Data | None, run: Path) -> Data:
    """Return the data set to use with a run: the one named, its own, or digits."""
    if (extractor := extractor_of_comparison(run)) is not None:
        raise ValueError(
            f"RUN must be a whole ensemble, got {run}, whose members are heads alone: "
            "they learned from features of the comparison's extractor. Train what you "
            f"want to use by tepui train --extractor {shlex.quote(extractor)}"
        )
    if data is not None:
        return data
    if (own := remembered(run, "data")) is not None:
        return own
    recorded = _recorded(run)
    silent = f"{run} does not say what it was"
    if not is_saved([run]):
        silent = "files of weights do not say what they were"
    rule = f"be given, since {silent} trained on"
    require(recorded is not None, "--data", rule, None)
    assert recorded is not None
    name = recorded["class"]
    rule = f"be given, since {run} was trained on {name}{_how_named(name)}"
    require(name == Digits.__name__, "--data", rule, None)
    return Digits


def _how_named(name: str) -> str:
    """Return how a data set that Python was given is named on the command line."""
    if name in IN_MEMORY:
        return (
            ", which lie in no file: write them with numpy.savez as x_train, y_train, "
            "x_test and y_test, and type --data 'ArrayFile(path=FILE.npz)'"
        )
    package = "" if name in PLACES["data"] else "mypackage."
    return f": type --data {package}{name.rpartition('.')[2]}"


def run_part(data: Data, run: Path, *, train: bool) -> Dataset[Any]:
    """Return one part of a data set, of the classes that a run learned."""
    return as_learned(part(data, train=train), run)


def as_learned(dataset: Dataset[Any], run: Path) -> Dataset[Any]:
    """Return samples with the normalization and the numbers of classes of a run."""
    dataset = normalized_for(run, dataset)
    if (recorded := _recorded(run)) is not None:
        classes = tuple(recorded.get("classes", ()))
        dataset = numbered_as(dataset, classes)
        same_classes(DATA, class_names(dataset), classes, str(run))
    return dataset


def normalized_for(run: Path, dataset: Dataset[Any]) -> Dataset[Any]:
    """Return arrays of a file, of which no normalization was written, with a run's."""
    known = (_recorded(run) or {}).get("normalize")
    if not isinstance(dataset, ArrayFile) or dataset.normalize or not known:
        return dataset
    normalize = Normalize(tuple(known["mean"]), tuple(known["std"]))
    return Arrays(dataset.inputs, dataset.targets, normalize)


def tested_part(data: Data | None, run: Path) -> Dataset[Any]:
    """Return the test part of the data set a run is evaluated on."""
    return run_part(data_for(data, run), run, train=False)


def learned_part(data: Data, run: Path) -> Dataset[Any]:
    """Return the training part without what a run held out of it."""
    whole = run_part(data, run, train=True)
    recorded = recorded_training(run)
    if (held := recorded.get("validation")) is None:
        return whole
    count = length(whole)
    same = count == held["samples"] + recorded["data"]["samples"]
    return divided(whole, held["samples"] / count)[0] if same else whole


def recorded_training(run: Path) -> dict[str, Any]:
    """Return what a run, or that of its heads, recorded; empty if it did nothing."""
    heads = RunFolder(run / HEADS)
    folder = heads if heads.started else RunFolder(run)
    return folder.recorded()["config"] if folder.started else {}


def _recorded(run: Path) -> dict[str, Any] | None:
    """Return what a run wrote of its data; None if it wrote nothing."""
    folder = RunFolder(run)
    return folder.recorded()["config"]["data"] if folder.started else None


def unfamiliar(
    ood: Mapping[str, Data] | None, test: Dataset[Any]
) -> dict[str, Dataset[Any]] | None:
    """Return unfamiliar sets in the form of the test set."""
    if not ood:
        return None
    for name, data in ood.items():
        if kind_of(data) in NOISE:
            rule = (
                "be data in the form of the test data, which are no images (such as "
                f"{name}='ArrayFile(path=FILE.npz)', of which x_test is taken)"
            )
            shown = kind_of(data).__name__
            require(image_shape(test) is not None, f"{OOD} {name}", rule, shown)
    return {name: prepared_like(built(data, test), test) for name, data in ood.items()}


def natural_shifts(
    natural: Mapping[str, Data] | None, test: Dataset[Any]
) -> dict[str, Dataset[Any]]:
    """Return natural shifts in the form of the test set; of files and folders, all."""
    found: dict[str, Dataset[Any]] = {}
    for name, data in (natural or {}).items():
        option = f"{SHIFTED} {name}"
        if kind_of(data) is Table:
            found[name] = rows = rows_like(test, options_given(data), {}, option)
            for words in rows.gaps.words:
                say(f"{option}: {words}")
        else:
            found[name] = prepared_like(built(data, whole=True), test)
    return found


def corrupted_copies(
    place: str, test: Dataset[Any], data: Data | None = None
) -> CorruptedFiles:
    """Return the corrupted copies that ``--copies`` asks for."""
    like = test if isinstance(test, ImageFiles) else to_arrays(test)
    if Path(place).is_dir():
        return corrupted_files(place, like)
    published = published_corruptions()
    one_of("copies, if not a folder,", place, published)
    origin, root = published[place], options_given(data).get("root")
    folder = origin.find(root) or located(place, origin, None)
    return corrupted_files(folder, like)


def published_corruptions() -> dict[str, Origin]:
    """Return where the published corrupted test sets come from, by name."""
    return {
        name: item.origin
        for name, item in inspect.getmembers(datasets, inspect.isclass)
        if issubclass(item, CorruptedFiles) and hasattr(item, "origin")
    }


def built(
    data: Data, test: Dataset[Any] | None = None, *, whole: bool = False
) -> Dataset[Any]:
    """Return a data set, of which the test part if it has one, or all of a folder."""
    taken = inspect.signature(kind_of(data)).parameters
    options: dict[str, Any] = {"train": False} if "train" in taken else {}
    if whole and "part" in taken:
        options["part"] = "all"
    shape = None if test is None else image_shape(test)
    if "shape" in taken and shape is not None:
        options["shape"] = shape
    return _made(data, **options)


def _made(data: Data, **options: Any) -> Dataset[Any]:
    """Return a data set, whose arguments must all be there."""
    try:
        inspect.signature(data).bind(**options)
    except TypeError as error:  # which names the argument
        raise ValueError(f"{kind_of(data).__name__}: {error}") from error
    return cast(Callable[..., Dataset[Any]], data)(**options)


def corruptions_for(test: Dataset[Any], asked: str | None) -> str:
    """Return the corruptions asked for; by default CIFAR's, where there are images."""
    if asked is None and image_shape(test) is None:
        say("no corrupted data, since inputs are not images")
        return "none"
    return asked or "cifar"


def corrupted_images(test: Dataset[Any], strength: str) -> Corrupted:
    """Return the corrupted copies that ``--corruptions`` asks for."""
    try:
        return corrupted(test, strength=strength)
    except UnreadableImageError:  # without corrupted data it could not be read either
        raise
    except ValueError as error:
        raise ValueError(
            f"{error}; corruptions=none leaves corrupted data out"
        ) from error
