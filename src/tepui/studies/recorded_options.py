"""The file beside a run that names data, model and extractor as its command did."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tepui.core.grammar import Call, parsed
from tepui.core.storage import read_document
from tepui.studies.comparison import FILE as COMPARISON
from tepui.training.run_folder import OPTIONS

FILE = OPTIONS
KIND = "options"


def recorded_options(run: Path) -> dict[str, Any]:
    """Return what is written down of a run: beside it, or beside its comparison."""
    if (run / FILE).is_file():
        return _read(run / FILE)
    return _options_of_comparison(run)


def extractor_of_comparison(run: Path) -> str | None:
    """Return on whose features a run of a comparison learned; it holds heads alone."""
    whole = (run / FILE).is_file()
    set_there: dict[str, str] = _options_of_comparison(run).get("set", {})
    return None if whole else set_there.get("extractor")


def _options_of_comparison(run: Path) -> dict[str, Any]:
    above = run.absolute().parent.parent
    known = all((above / name).is_file() for name in (COMPARISON, FILE))
    return _read(above / FILE) if known else {}


def _read(file: Path) -> dict[str, Any]:
    options: dict[str, Any] = read_document(file, KIND)["options"]
    return options


def data_in_words(options: Mapping[str, Any]) -> str | None:
    """Return the file or folder of the data, and the column that is predicted.

    Of a path no more than its name is told; None where data have none.

    Example:
        >>> data_in_words({"data": "Table(path='/home/me/flats.csv', target='sold')"})
        'flats.csv, to predict sold'
    """
    tree = parsed(options.get("data") or "None", "data", own=True)
    given = tree.keywords if isinstance(tree, Call) else {}
    path, target = given.get("path"), given.get("target")
    if not isinstance(path, str):  # data of one's own may mean anything by it
        return None
    name = Path(path).name
    return name if target is None else f"{name}, to predict {target}"
