"""Data sets named on the command line: parts, corrupted copies, unfamiliar ones.

Beside a run's own data: what it is tested and validated on, and whether that is other
data than it learned from.
"""

import inspect
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from torch.utils.data import Dataset

from tepui import data as datasets
from tepui.cli.asked import PLACES, kind_of, options_given, remembered
from tepui.cli.folders import say
from tepui.cli.values import Text
from tepui.core.checks import one_of, require
from tepui.data import Arrays, ImageFolder, Normalize, Table, prepared_like, to_arrays
from tepui.data.class_names import class_names, same_classes
from tepui.data.corruptions.copies import Corrupted
from tepui.data.files.corrupted_files import CorruptedFiles
from tepui.data.files.image_folder import part_folders
from tepui.data.files.installing import located
from tepui.data.files.origins import Origin
from tepui.data.identity import data_identity
from tepui.data.image_files import ImageFiles
from tepui.data.loading import length
from tepui.data.numbered_as import numbered_as
from tepui.data.prepared_like import image_shape
from tepui.data.shifts import Shifts
from tepui.ensembles.loading import preparation_in
from tepui.modules.features import cached_features
from tepui.studies.recorded_options import extractor_of_comparison, recorded_options
from tepui.training.checks import divided
from tepui.training.run_folder import RunFolder

Data = Callable[[], Dataset[Any]]

DATA = "--data"
OOD = "--ood"
SHIFTED = "--shifted"
VALIDATION = "--validation"
NOISE = (datasets.UniformNoise, datasets.GaussianNoise)
# Where a run that trains heads alone keeps their run, and what they learn from.
HEADS = "heads"
FEATURES = "features"
# MRPC's choice between two test parts, of which none holds rows of the other, with
# what it means where nothing is said.
CHOICES = {"test": "validation"}
# What commands choose, of classes whose other options may all choose samples.
CHOSEN = ("train", "part")


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
            f"train what to use by tepui train --extractor {shlex.quote(extractor)}"
        )
    if data is not None:
        return data
    if (own := remembered(run, "data")) is not None:
        return own
    name = _recorded(run).get("class")
    why = f"{run} was trained on {name}"
    why = why if name else "nothing says what members were trained on"
    rule = f"be given, since {why}"
    require(name == datasets.Digits.__name__, DATA, rule, None)
    return datasets.Digits


def run_part(data: Data, run: Path, *, train: bool) -> Dataset[Any]:
    """Return one part of a data set, of the classes that a run learned."""
    return as_learned(part(data, train=train), run)


def as_learned(dataset: Dataset[Any], run: Path) -> Dataset[Any]:
    """Return samples with the normalization and the numbers of classes of a run."""
    dataset = normalized_for(run, dataset)
    if recorded := _recorded(run):
        classes = tuple(recorded.get("classes", ()))
        dataset = numbered_as(dataset, classes)
        same_classes(DATA, class_names(dataset), classes, str(run))
    return dataset


def normalized_for(run: Path, dataset: Dataset[Any]) -> Dataset[Any]:
    """Return arrays of a file, of which no normalization was written, with a run's."""
    known = _recorded(run).get("normalize")
    if not isinstance(dataset, datasets.ArrayFile) or dataset.normalize or not known:
        return dataset
    normalize = Normalize(tuple(known["mean"]), tuple(known["std"]))
    return Arrays(dataset.inputs, dataset.targets, normalize)


def tested_part(data: Data | None, run: Path) -> Dataset[Any]:
    """Return the test part of the data set a run is evaluated on."""
    return run_part(data_for(data, run), run, train=False)


def tested_data(data: Data | None, run: Path) -> Dataset[Any]:
    """Return the test part of some data, or all of them if asked for and unseen.

    Args:
        data: What makes the data set; that of the run by default.
        run: The folder of the run, or of a saved ensemble.

    Raises:
        ValueError: If all of the data that the run learned from are asked for, or of
            data of which that is not known.
    """
    whole = options_given(data).get("part") == "all"
    rule = (
        f"be left out, since {run} does not say what members learned from; all of "
        "another folder is tested on by --shifted NAME=ImageFolder(path=PATH)"
    )
    require(not whole or _says_its_data(run), "part", rule, "all")
    if data is None or not is_other(data, run):
        return tested_part(data, run)
    if kind_of(data) is Table:
        own = options_given(remembered(run, "data"))
        return rows_like(tested_part(None, run), options_given(data), own, DATA)
    known = preparation_in(run)
    if whole:
        found = as_learned(built(data, whole=True), run)
    else:
        found = tested_part(data, run)
    if known is None or not isinstance(found, ImageFolder):
        return found
    return known.dataset(found)


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


def _recorded(run: Path) -> dict[str, Any]:
    """Return what a run wrote of its data; empty if it wrote nothing."""
    folder = RunFolder(run)
    return folder.recorded()["config"]["data"] if folder.started else {}


def unfamiliar(
    ood: Mapping[str, Text] | None, test: Dataset[Any]
) -> dict[str, Dataset[Any]] | None:
    """Return unfamiliar sets in the form of the test set."""
    found = {}
    for name, text in (ood or {}).items():
        data = text.read()
        shaped = kind_of(data) not in NOISE or image_shape(test) is not None
        rule = "be data in the form of the test data, which are no images"
        require(shaped, f"{OOD} {name}", rule, str(text))
        found[name] = prepared_like(built(data, test), test)
    return found or None


def shifts_of(
    test: Dataset[Any],
    copies: Corrupted | CorruptedFiles | None,
    shifted: Mapping[str, Text] | None,
    learned: Data | None,
) -> Shifts:
    """Return natural shifts in the form of the test set, beside corrupted copies.

    Of files and folders all is tested on; other data have a test part.

    Raises:
        ValueError: If a natural shift is what was learned from.
    """
    found: dict[str, Dataset[Any]] = {}
    for name, text in (shifted or {}).items():
        data, option = text.read(), f"{SHIFTED} {name}"
        whole = learned is not None and kind_of(data) in (ImageFolder, Table)
        seen = whole and same_source(data, _training_part(learned))
        rule = "be other data than members learn from"
        require(not seen, option, rule, options_given(data).get("path"))
        if kind_of(data) is Table:
            found[name] = rows = rows_like(test, options_given(data), {}, option)
            for words in rows.gaps.words:
                say(f"{option}: {words}")
        else:
            found[name] = prepared_like(built(data, whole=True), test)
    return Shifts({} if copies is None else copies, found)


def corrupted_copies(
    test: Dataset[Any], strength: str | None, place: str | None, data: Data | None
) -> Corrupted | CorruptedFiles | None:
    """Return the corrupted copies that are asked for, if any.

    Args:
        test: What they are of.
        strength: Which benchmark's; by default CIFAR's of images.
        place: A folder, or the name of a published set, to use instead.
        data: What makes the test data.
    """
    if place is not None:
        like = test if isinstance(test, ImageFiles) else to_arrays(test)
        folder: str | Path = place
        if not Path(place).is_dir():
            published = published_corruptions()
            one_of("copies, if not a folder,", place, published)
            origin, root = published[place], options_given(data).get("root")
            folder = origin.find(root) or located(place, origin, None)
        return datasets.corrupted_files(folder, like)
    if strength is None and image_shape(test) is None:
        say("no corrupted data, since inputs are not images")
        return None
    if strength == "none":
        return None
    return datasets.corrupted(test, strength=strength or "cifar")


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


def rows_like(
    table: Dataset[Any], given: Mapping[str, Any], own: Mapping[str, Any], option: str
) -> Table:
    """Return all rows of another file, as those of a table are read.

    Args:
        table: What was learned from, or its test part.
        given: The options of the other table.
        own: The options of the first.
        option: How the other one is called in a message.

    Raises:
        ValueError: If nothing was learned from a table, or the other one is to be read
            in another way.
    """
    if not isinstance(table, Table):
        rule = "be no table where the data of the run are none"
        raise ValueError(f"{option} must {rule}, got {given['path']!r}")
    check_read_alike(table.target, given, own, option)
    return table.rows_of(given["path"])


def check_read_alike(
    target: str, given: Mapping[str, Any], own: Mapping[str, Any], option: str
) -> None:
    """Raise a ``ValueError`` if options ask to read rows in another way than a run's.

    Args:
        target: What the run predicts.
        given: The options of another table.
        own: The options of the run's.
        option: How the other one is called in a message.
    """
    rule = f"be that of the run's own rows ({target})"
    asked = given.get("target", target)
    require(asked == target, f"{option}: target", rule, asked)
    rule = "be left out: columns are read as the run's own"
    for name, default in (("ignore", ()), ("kind", None), ("missing", "refuse")):
        value = given.get(name)
        same = value in (None, default, own.get(name))
        require(same, f"{option}: {name}", rule, value)


def learned_from(run: Path) -> Data | None:
    """Return what makes the data of a run; None if nothing known is recorded."""
    known = _known(recorded_options(run).get("data"))
    return remembered(run, "data") if known else None


def is_other(data: Data, run: Path) -> bool:
    """Return whether a run is known to have learned, and chosen, by other data."""
    if not _says_its_data(run):
        return False
    seen = [_training_part(remembered(run, "data")), remembered(run, "validation")]
    return not any(same_source(data, each) for each in seen if each is not None)


def _says_its_data(run: Path) -> bool:
    """Return whether a run says what it learned, and chose, by, in known classes."""
    recorded = recorded_options(run)
    sources = [recorded[name] for name in ("data", "validation") if name in recorded]
    return bool(sources) and all(_known(each) for each in sources)


def _known(text: Any) -> bool:
    """Return whether the text of a run is of tepui's own data, or is a share."""
    share = isinstance(text, float | int)
    return text is not None and (share or Text(text, "data").is_known())


def _training_part(data: Data | None) -> Data | None:
    """Return what makes training data: of a folder of images with parts, one part."""
    path = options_given(data).get("path", "")
    if kind_of(data) is not ImageFolder or not Path(path).is_dir():
        return data
    return partial(ImageFolder, path=part_folders(Path(path))[0])


def same_source(first: Any, second: Any) -> bool:
    """Return whether two data sets are of one class and lie in one place.

    A folder of images and one of its two parts share images, and count as the same. How
    samples are prepared, such as their size or the columns left out, makes no other
    data. Of a class of one's own any option may, since nothing is known of it.

    Args:
        first: What makes a data set.
        second: What makes another.

    Example:
        >>> from functools import partial
        >>> from tepui.data import ImageFolder
        >>> small = partial(ImageFolder, path="photos", size=8)
        >>> same_source(small, partial(ImageFolder, path="other/../photos"))
        True
        >>> same_source(small, partial(ImageFolder, path="other"))
        False
    """
    (kind, one), (of, other) = _identity(first), _identity(second)
    if kind is of is ImageFolder:
        return bool(_folders(one["path"]) & _folders(other["path"]))
    return kind == of and one == other


def _identity(made_by: Any) -> tuple[Any, dict[str, Any]]:
    """Return the class, and the options that say which data are meant."""
    kind, options = kind_of(made_by), options_given(made_by)
    if kind.__module__.partition(".")[0] == "tepui":
        usual = dict.fromkeys(PLACES) | CHOICES
        options = {key: options.get(key) or usual[key] for key in usual}
    origin: Origin | None = getattr(kind, "origin", None)
    return kind, {
        key: _resolved(value, origin) if key in PLACES else value
        for key, value in options.items()
        if key not in CHOSEN
    }


def _resolved(place: str | None, origin: Origin | None) -> Path | None:
    """Return where data lie; published ones are also found where none is named."""
    found = (None if origin is None else origin.find(place)) or place
    return None if found is None else Path(found).resolve()


def _folders(path: Path) -> set[Path]:
    """Return a folder of images with those of its parts."""
    try:
        return {path, *(part.resolve() for part in part_folders(path))}
    except FileNotFoundError:  # which is said where images are read
        return {path}


def validation_data(
    validation: float | Text | Data | None, data: Data, learned: Dataset[Any]
) -> Dataset[Any] | float | None:
    """Return what is asked for: a share, or other data as the training data are read.

    Args:
        validation: A share; or what makes a data set, of which the test part is taken,
            and of images in a folder and of a table all.
        data: What makes the training data.
        learned: The training data.

    Raises:
        ValueError: If it would be the training data's own test part, or a table that
            has other columns.
    """
    if validation is None or isinstance(validation, float | int):
        return validation
    made_by = validation.read() if isinstance(validation, Text) else validation
    rule = "be other data than --data, whose test part is kept for the last word"
    require(not same_source(made_by, data), VALIDATION, rule, "the same")
    if kind_of(made_by) is not Table:
        return prepared_like(built(made_by, whole=True), learned)
    given, own = options_given(made_by), options_given(data)
    return rows_like(learned, given, own, VALIDATION)


def held_out_part(
    data: Data, run: Path, extractor: nn.Module | None = None
) -> Dataset[Any]:
    """Return what a run was validated on: other data, or a share of its training part.

    Of heads it recorded the features, which tell whether data are the same, too.
    """
    recorded = recorded_training(run)
    expected = recorded.get("validation")
    rule = f"be test, since {run} has held out nothing (tepui train --validation 0.2)"
    require(expected is not None, "--held-out", rule, "validation")
    assert expected is not None

    def seen(data: Dataset[Any]) -> Dataset[Any]:
        """Return what members saw of some data."""
        features = run / FEATURES
        return data if extractor is None else cached_features(extractor, data, features)

    whole = run_part(data, run, train=True)
    if (other := remembered(run, "validation")) is not None:
        unseen = cast(Dataset[Any], validation_data(other, data, whole))
        same = data_identity(seen(unseen)) == expected
        rule = f"be test, since the data that {run} was validated on were changed"
        require(same, "--held-out", rule, "validation")
        return unseen
    count, held = length(whole), expected["samples"]
    apart = count == recorded["data"]["samples"]
    rule = (
        f"be test, since {run} was validated on data that it does not name (give "
        f"--data with these {held} samples as its test part)"
    )
    require(not apart, "--held-out", rule, "validation")
    rule = f"be the data set that {run} was trained on"
    same = count == held + recorded["data"]["samples"]
    require(same, DATA, rule, f"{count} samples")
    same = data_identity(divided(seen(whole), held / count)[1]) == expected
    require(same, DATA, rule, "others, or changed ones")
    return divided(whole, held / count)[1]
