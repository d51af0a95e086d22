"""Whether two data sets of the command line are the same data, however prepared."""

from pathlib import Path
from typing import Any

from tepui.cli.remembered import kind_of, options_given
from tepui.cli.same_files import same_files
from tepui.data import ImageFolder
from tepui.data.files.image_folder import part_folders
from tepui.data.files.origins import Origin

# MRPC's choice between two test parts, of which none holds rows of the other, with
# what it means where nothing is said.
_CHOICES = {"test": "validation"}
# Arguments that name places.
PLACES = ("path", "root")
# What commands choose, of classes whose other options may all choose samples.
_CHOSEN = ("train", "part")


def same_source(first: Any, second: Any) -> bool:
    """Return whether two data sets are of one class and lie in one place.

    A place with hard links to, or copies of, all files of the other is the same, also
    with further ones; of a folder with images these count alone. A folder of images and
    one of its two parts share images, and count as the same. How samples are prepared,
    such as their size or the columns left out, makes no other data. Of a class of one's
    own any option may, since nothing is known of it.

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
    if kind != of or one.keys() != other.keys():
        return False
    return all(_same_value(kind, value, other[key]) for key, value in one.items())


def _identity(made_by: Any) -> tuple[Any, dict[str, Any]]:
    """Return the class, and the options that say which data are meant."""
    kind, options = kind_of(made_by), options_given(made_by)
    if is_known(kind):
        usual = dict.fromkeys(PLACES) | _CHOICES
        options = {key: options.get(key) or usual[key] for key in usual}
    origin: Origin | None = getattr(kind, "origin", None)
    return kind, {
        key: _resolved(value, origin) if key in PLACES else value
        for key, value in options.items()
        if key not in _CHOSEN
    }


def is_known(kind: Any) -> bool:
    """Return whether a class is one of tepui's data sets."""
    module: str = kind.__module__
    return module.partition(".")[0] == "tepui"


def _resolved(place: str | None, origin: Origin | None) -> Path | None:
    """Return where data lie; published ones are also found where none is named."""
    found = None if origin is None else origin.find(place)
    if found is None and place is None:
        return None
    return Path(found or place or "").resolve()


def _same_value(kind: Any, one: Any, other: Any) -> bool:
    """Return whether an option of two data sets of one class means the same."""
    if one == other or not (isinstance(one, Path) and isinstance(other, Path)):
        return bool(one == other)
    if kind is ImageFolder:
        return same_files(_folders(one), _folders(other))
    return same_files([one], [other])


def _folders(path: Path) -> set[Path]:
    """Return a folder of images with those of its parts."""
    try:
        return {path, *(part.resolve() for part in part_folders(path))}
    except FileNotFoundError:  # which is said where images are read
        return {path}
