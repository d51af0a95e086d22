"""What names data: a class with its arguments, a written value, or a file.

A source is a data set, or what makes one: ``CIFAR10``, ``partial(ImageFolder,
path="photos")`` or its written form ``"ImageFolder(path=photos)"``. Here its parts are
made, and two sources are told apart by where their samples lie.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from torch.utils.data import Dataset

from tepui import data as datasets
from tepui.core.checks import one_of, require
from tepui.core.spec import read
from tepui.data import ImageFolder, Table, to_arrays
from tepui.data.corruptions.copies import Corrupted
from tepui.data.corruptions.files import CorruptedFiles, Released
from tepui.data.identity import data_identity
from tepui.data.image_files import ImageFiles, image_shape
from tepui.data.image_folders import part_folders
from tepui.data.preparation import Preparation, preparation_of
from tepui.data.published import located
from tepui.data.shifts import Cell, Shifts

Factory = Callable[..., Dataset[Any]]
Source = Dataset[Any] | Factory | str

# Arguments that name places, which are found from anywhere once they are absolute.
PLACES = ("path", "root")
# What commands choose, of classes whose other options may all choose samples.
CHOSEN = ("train", "part")


def is_made(source: object) -> bool:
    """Return whether a source is a data set already."""
    return isinstance(source, Dataset) or not (callable(source) or source is None)


def kind_of(source: Source | None) -> Any:
    """Return the class or function that makes a data set, or its class."""
    if isinstance(source, partial):
        return source.func
    return type(source) if is_made(source) else source


def options_given(source: Source | None) -> dict[str, Any]:
    """Return the arguments that were written of what makes a data set."""
    return source.keywords if isinstance(source, partial) else {}


def named(source: Source) -> Any:
    """Return a data set, or what makes it where a written value was given."""
    own = getattr(source, "typed", True)  # a file names no code of one's own
    return read(str(source), "data", own=own) if isinstance(source, str) else source


def part(source: Source, *, train: bool) -> Dataset[Any]:
    """Return one part of a data set."""
    made_by = named(source)
    written = options_given(made_by).get("part")
    rule = "be left out: what is trained on must not be tested on"
    require(written != "all", "part", rule, written)
    found: Dataset[Any] = made_by if is_made(made_by) else _made(made_by, train=train)
    return found


def built(
    source: Source, shape: tuple[int, ...] | None = None, *, whole: bool = False
) -> Dataset[Any]:
    """Return a data set, of which the test part if it has one, or all of a folder."""
    made_by = named(source)
    if is_made(made_by):
        given: Dataset[Any] = made_by
        return given
    taken = inspect.signature(kind_of(made_by)).parameters
    options: dict[str, Any] = {"train": False} if "train" in taken else {}
    if whole and "part" in taken:
        options["part"] = "all"
    if "shape" in taken and shape is not None:
        options["shape"] = shape
    return _made(made_by, **options)


def _made(factory: Factory, **options: Any) -> Dataset[Any]:
    """Return a data set, whose arguments must all be there."""
    try:
        inspect.signature(factory).bind(**options)
    except TypeError as error:  # which names the argument
        raise ValueError(f"{kind_of(factory).__name__}: {error}") from error
    return factory(**options)


def read_like(
    source: Source,
    known: Preparation | None,
    option: str,
    *,
    targets: bool | None = True,
) -> Dataset[Any]:
    """Return samples as training data were read: of a folder or a table all.

    Args:
        source: What they come from.
        known: How the training data were read; None if only their own code knows.
        option: How the source is called in a message.
        targets: Whether a table must have the column that was learned, see
            :meth:`tepui.data.Preparation.apply`.

    Raises:
        ValueError: If the source asks to be read in another way.
    """
    source = named(source)
    if is_made(source) or kind_of(source) is not Table:
        data = built(source, whole=True)
        return data if known is None else known.apply(data)
    given = options_given(source)
    rule = "be no table where the data of the run are none"
    require(bool(known and known.columns), option, rule, given["path"])
    assert known is not None
    rule = f"be that of the run's own rows ({known.target})"
    asked = given.get("target", known.target)
    require(asked == known.target, f"{option}: target", rule, asked)
    left = {column.name for column in known.columns} & {*given.get("ignore", ())}
    kind = "classes" if known.classes else "numbers"
    same = not left and given.get("kind") in (None, kind)
    rule = "be without ignore and kind: columns are read as the run's own"
    require(same, option, rule, sorted(given))
    return known.apply(given["path"], targets=targets)


def unfamiliar(
    ood: Mapping[str, Source] | None, test: Dataset[Any]
) -> dict[str, Dataset[Any]]:
    """Return unfamiliar sets in the form of the test set."""
    known, shape, found = preparation_of(test), image_shape(test), {}
    for name, source in (ood or {}).items():
        made_by, option = named(source), f"ood {name}"
        shaped = kind_of(made_by) is not datasets.UniformNoise or shape is not None
        rule = "be data in the form of the test data, which are no images"
        require(shaped, option, rule, kind_of(made_by).__name__)
        data = built(made_by, shape)
        found[name] = data if known is None else known.apply(data)
    return found


def shifts_of(
    test: Dataset[Any],
    copies: Mapping[Cell, Dataset[Any]] | None,
    shifted: Mapping[str, Source] | None,
    learned: Source | None,
) -> Shifts:
    """Return natural shifts in the form of the test set, beside corrupted copies.

    Of files and folders all is tested on; other data have a test part.

    Raises:
        ValueError: If a natural shift is what was learned from.
    """
    known, found = preparation_of(test), {}
    for name, source in (shifted or {}).items():
        made_by, option = named(source), f"shifted {name}"
        whole = learned is not None and kind_of(made_by) in (ImageFolder, Table)
        seen = whole and same_source(made_by, training_part(learned))
        rule = "be other data than members learn from"
        require(not seen, option, rule, options_given(made_by).get("path"))
        found[name] = read_like(made_by, known, option)
    return Shifts({} if copies is None else copies, found)


def corrupted_copies(
    test: Dataset[Any], strength: str | None, place: str | None, root: str | None = None
) -> Corrupted | CorruptedFiles | None:
    """Return the corrupted copies that are asked for; none of what is no image.

    Args:
        test: What they are of.
        strength: Which benchmark's; by default CIFAR's of images.
        place: A folder, or the name of a published set, to use instead.
        root: Where published sets lie.
    """
    if place is not None:
        like = test if isinstance(test, ImageFiles) else to_arrays(test)
        folder: str | Path = place
        if not Path(place).is_dir():
            kinds: dict[str, Any] = dict(inspect.getmembers(datasets, inspect.isclass))
            known = [n for n, kind in kinds.items() if issubclass(kind, Released)]
            one_of("copies, if not a folder,", place, known)
            origin = kinds[place].origin
            folder = origin.find(root) or located(place, origin)
        return datasets.corrupted_files(folder, like)
    if strength == "none" or (strength is None and image_shape(test) is None):
        return None
    return datasets.corrupted(test, strength=cast(Any, strength or "cifar"))


def validation_data(
    validation: float | Source | None, source: Source, learned: Dataset[Any]
) -> Dataset[Any] | float | None:
    """Return what is asked for: a share, or other data as the training data are read.

    Args:
        validation: A share; or what makes a data set, of which the test part is taken,
            and of images in a folder and of a table all.
        source: What makes the training data.
        learned: The training data.

    Raises:
        ValueError: If it would be the training data's own test part, or a table that
            has other columns.
    """
    if validation is None or isinstance(validation, float | int):
        return validation
    made_by, option = named(validation), "validation"
    rule = "be other data than data, whose test part is kept for the last word"
    require(not same_source(made_by, source), option, rule, "the same")
    return read_like(made_by, preparation_of(learned), option)


def tested_on(
    test: Dataset[Any],
    shifted: Mapping[Cell, Dataset[Any]] | None,
    ood: Mapping[str, Dataset[Any]] | None,
) -> dict[str, Any]:
    """Return what tells this test from another, ready for JSON."""
    about: dict[str, Any] = {"test": data_identity(test)}
    shifts = Shifts.of(shifted)
    copies = shifts.copies
    about["cells"] = [list(cell) for cell in copies]
    if isinstance(copies, Corrupted):
        about |= {"strength": copies.strength, "seed": copies.seed}
    elif copies:
        about["copies"] = [data_identity(copy) for copy in copies.values()]
    if shifts.natural:
        natural = shifts.natural.items()
        about["natural"] = {name: data_identity(data) for name, data in natural}
    if ood:
        about["ood"] = {name: data_identity(data) for name, data in ood.items()}
    return about


def training_part(source: Source | None) -> Source | None:
    """Return what makes training data: of a folder of images with parts, one part."""
    path = options_given(source).get("path", "")
    if kind_of(source) is not ImageFolder or not Path(path).is_dir():
        return source
    return partial(ImageFolder, path=part_folders(Path(path))[0])


def same_source(first: Any, second: Any) -> bool:
    """Return whether two data sets are of one class and lie in one place.

    A folder of images and one of its two parts share images, and count as the same. How
    samples are prepared, such as their size or the columns left out, makes no other
    data. Of a class of your own any option may, since nothing is known of it.

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
    if is_made(first) or is_made(second):  # of which only its samples are known
        both = is_made(first) and is_made(second)
        return both and data_identity(first) == data_identity(second)
    if kind_of(first) != kind_of(second):
        return False
    one, other = _which(first), _which(second)
    if kind_of(first) is ImageFolder:
        return bool(_folders(one["path"]) & _folders(other["path"]))
    return one == other


def _which(source: Any) -> dict[str, Any]:
    """Return the options that say which data are meant: a place, or any of others."""
    own = kind_of(source).__module__.partition(".")[0] != "tepui"
    return {
        key: Path(value).resolve() if key == "path" else value
        for key, value in options_given(source).items()
        if key == "path" or (own and key not in CHOSEN)
    }


def _folders(path: Path) -> set[Path]:
    """Return a folder of images with those of its parts."""
    try:
        return {path, *(part.resolve() for part in part_folders(path))}
    except FileNotFoundError:  # which is said where images are read
        return {path}
