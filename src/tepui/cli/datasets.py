"""Data sets named on the command line: parts, corrupted copies, unfamiliar ones."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch.utils.data import Dataset

from tepui import data as datasets
from tepui.cli.parsing import known_spelling
from tepui.core.checks import one_of, require
from tepui.core.storage import read_json
from tepui.data import Digits, arrays_of, corrupted, corrupted_files, prepared_like
from tepui.data.class_names import class_names, same_classes
from tepui.data.corruptions.copies import Corrupted
from tepui.data.files.corrupted_files import CorruptedFiles
from tepui.data.files.installing import located
from tepui.data.files.sources import Source
from tepui.data.image_files import ImageFiles
from tepui.data.prepared_like import image_shape

Data = Callable[[], Dataset[Any]]


def place_of(device: str | None) -> str:
    """Return the device asked for; a GPU if none is and there is one."""
    return device or ("cuda" if torch.cuda.is_available() else "cpu")


def part(data: Data, *, train: bool) -> Dataset[Any]:
    """Return one part of a data set.

    Args:
        data: What the command line built: a data set's class with its options set.
        train: The training part if true, else the test part.

    Returns:
        The data set.
    """
    return cast(Callable[..., Dataset[Any]], data)(train=train)


def data_for(data: Data | None, run: Path) -> Data:
    """Return the data set that a run is asked about.

    Args:
        data: What the command line built; None where it names nothing.
        run: The folder of the run.

    Returns:
        The data set; digits, the default of all commands, unless the run is known to
        be on other data.

    Raises:
        ValueError: If nothing is named for a run on other data.
    """
    known = _recorded(run)
    if data is None and known is not None:
        rule = f"be given, since {run} was trained on {known['class']}"
        require(known["class"] == Digits.__name__, "--data", rule, None)
    return Digits if data is None else data


def tested_part(data: Data | None, run: Path) -> Dataset[Any]:
    """Return the test part of the data set a run is evaluated on.

    Args:
        data: What the command line built; None where it names nothing.
        run: The folder of the run.

    Returns:
        The test part of what :func:`data_for` returns.

    Raises:
        ValueError: If nothing is named for a run on other data, or data with other
            classes.
    """
    found = part(data_for(data, run), train=False)
    known = _recorded(run)
    if known is not None:
        classes = tuple(known.get("classes", ()))
        same_classes("--data", class_names(found), classes, str(run))
    return found


def _recorded(run: Path) -> dict[str, Any] | None:
    """Return what a run wrote of its data; None if it wrote nothing."""
    file = run / "run.json"
    return read_json(file)["config"]["data"] if file.is_file() else None


def unfamiliar(
    ood: Mapping[str, Data] | None, test: Dataset[Any]
) -> dict[str, Dataset[Any]] | None:
    """Return unfamiliar sets in the form of the test set.

    Args:
        ood: What the command line built, by name: the test part is taken of what has
            one, and noise gets the shape of the test images.
        test: The test set.

    Returns:
        The data sets by name; None where none was named.
    """
    if not ood:
        return None
    return {name: prepared_like(_built(data, test), test) for name, data in ood.items()}


def corrupted_copies(
    place: str, test: Dataset[Any], data: Data | None = None
) -> CorruptedFiles:
    """Return the corrupted copies that ``--shifted`` asks for.

    Args:
        place: A folder, or the name of a published set. The set is looked for in the
            data folder of the test set, then in the usual one.
        test: The clean test part, which the copies must be of.
        data: What the command line built the test part from.

    Returns:
        A mapping from ``(name, severity)`` to data sets.

    Raises:
        FileNotFoundError: If a published set is not there; the message says how to get
            it.
        ValueError: If the place is neither, or holds copies of something else.
    """
    like = test if isinstance(test, ImageFiles) else arrays_of(test)
    if Path(place).is_dir():
        return corrupted_files(place, like)
    published = published_corruptions()
    name = known_spelling(place, published)
    one_of("--shifted, where it is no folder,", name, published)
    known = data.keywords if isinstance(data, partial) else {}
    source = published[name]
    folder = source.find(known.get("root")) or located(name, source, None)
    return corrupted_files(folder, like)


def published_corruptions() -> dict[str, Source]:
    """Return where the published corrupted test sets come from, by name."""
    return {
        name: item.source
        for name, item in inspect.getmembers(datasets, inspect.isclass)
        if issubclass(item, CorruptedFiles) and hasattr(item, "source")
    }


def _built(data: Data, test: Dataset[Any]) -> Dataset[Any]:
    known = data.keywords if isinstance(data, partial) else {}
    options: dict[str, Any] = {"train": False} if "train" in known else {}
    if "shape" in known and (shape := image_shape(test)) is not None:
        options["shape"] = shape
    return cast(Callable[..., Dataset[Any]], data)(**options)


def corrupted_images(test: Dataset[Any], strength: str, device: str) -> Corrupted:
    """Return the corrupted copies that ``--corruptions`` asks for.

    Args:
        test: The clean test part.
        strength: Whose parameters to take.
        device: Where to corrupt.

    Returns:
        A mapping from ``(name, severity)`` to data sets.

    Raises:
        ValueError: If the data are no images; the message says how to go without.
    """
    try:
        return corrupted(arrays_of(test).to(device), strength=strength)
    except ValueError as error:
        raise ValueError(
            f"{error}; pass --corruptions none to leave corrupted data out"
        ) from error
