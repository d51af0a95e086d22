"""What a run is tested on: its own test part, or other data as the run reads them."""

import inspect
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from torch.utils.data import Dataset

from tepui.cli.datasets import DATA, SHIFTED, Data, as_learned, built, tested_part
from tepui.cli.members import is_saved
from tepui.cli.other_rows import rows_like
from tepui.cli.remembered import kind_of, options_given, remembered
from tepui.cli.same_source import same_source
from tepui.cli.values import Text
from tepui.core.checks import require
from tepui.core.counted import counted
from tepui.data import ImageFolder, Table
from tepui.data.files.image_folder import part_folders
from tepui.data.loading import length
from tepui.ensembles.loading import preparation_in
from tepui.studies.recorded_options import recorded_options

ALL = "all"


class Tested(NamedTuple):
    """Test data, and how many they are of what, in words."""

    data: Dataset[Any]
    said: str


def tested_data(data: Data | None, run: Path) -> Tested:
    """Return the test part of some data, or all of them if asked for and unseen.

    Args:
        data: What makes the data set; that of the run by default.
        run: The folder of the run, or of a saved ensemble.

    Raises:
        ValueError: If all of the data that the run learned from are asked for, or of
            data of which that is not known.
    """
    written = options_given(data).get("part")
    silent = f"{run} does" if is_saved([run]) else "files of weights do"
    rule = (
        f"be left out, since {silent} not say what members learned from; beside the "
        "test part, all of another folder is tested on by --shifted "
        "NAME=ImageFolder(path=PATH)"
    )
    require(written != ALL or _says_its_data(run), "part", rule, written)
    if data is None or not is_other(data, run):
        test = tested_part(data, run)
        return Tested(test, f"tested on {_count(test)}, the test part")
    if kind_of(data) is Table:
        own = options_given(remembered(run, "data"))
        rows = rows_like(tested_part(None, run), options_given(data), own, DATA)
        return Tested(rows, f"tested on {_count(rows)}, all of the table")
    if written == ALL:
        test = _in_form(as_learned(built(data, whole=True), run), run)
        return Tested(test, f"tested on {_count(test)}, all of the data")
    test = _in_form(tested_part(data, run), run)
    divided = "part" in inspect.signature(kind_of(data)).parameters
    more = "; part=all takes all of them" if divided else ""
    return Tested(test, f"tested on {_count(test)}, the test part of other data{more}")


def check_unseen(shifts: Mapping[str, Data] | None, learned: Data | None) -> None:
    """Raise a ``ValueError`` if a natural shift is what was learned from.

    Of files and folders all is tested on; other data have a test part.
    """
    for name, data in (shifts or {}).items():
        whole = learned is not None and kind_of(data) in (ImageFolder, Table)
        seen = whole and same_source(data, _training_part(learned))
        rule = "be other data than members learn from"
        require(not seen, f"{SHIFTED} {name}", rule, options_given(data).get("path"))


def learned_from(run: Path) -> Data | None:
    """Return what makes the data of a run; None if nothing known is recorded."""
    return (
        remembered(run, "data") if _known(recorded_options(run).get("data")) else None
    )


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
    return text is not None and (
        isinstance(text, float | int) or Text(text, "data").is_known()
    )


def _training_part(data: Data | None) -> Data | None:
    """Return what makes training data: of a folder of images with parts, one part."""
    path = options_given(data).get("path", "")
    if kind_of(data) is not ImageFolder or not Path(path).is_dir():
        return data
    return partial(ImageFolder, path=part_folders(Path(path))[0])


def _in_form(dataset: Dataset[Any], run: Path) -> Dataset[Any]:
    """Return images of a folder in the form of those that a run learned from."""
    known = preparation_in(run)
    if known is None or not isinstance(dataset, ImageFolder):
        return dataset
    return known.dataset(dataset)


def _count(dataset: Dataset[Any]) -> str:
    return counted(length(dataset), "sample")
