"""A file where a data set is to be named: what to type instead."""

from collections.abc import Sequence
from pathlib import Path

import tepui.data
from tepui.cli.known import SHIFTED, known_spelling
from tepui.core.checks import require
from tepui.data import Table
from tepui.data.image_files import SUFFIXES

TABLES = (".csv", ".tsv", ".parquet", ".xlsx", ".json", ".jsonl")
READ = (".csv", ".tsv")
ARRAYS = (".npz", ".npy")
VALIDATION = "--validation"
_LABELED = ("--data", VALIDATION)
_OPTIONS = (*_LABELED, "--unlabeled")


def check_no_files(pairs: Sequence[tuple[str, str]]) -> None:
    """Raise if an option that names a data set names a file or folder.

    Args:
        pairs: Options with their values.

    Raises:
        ValueError: If one does; the message holds the options to type.
    """
    _check_one_validation(pairs)
    for option, value in pairs:
        if option in _OPTIONS and _is_place(value):
            rule = f"name a data set; for this {_kind(value)} {_instead(option, value)}"
            require(False, option, rule, value)
        if option == "--data.path" and Path(value).suffix.lower() in TABLES:
            named = known_spelling(dict(pairs).get("--data", ""), [Table.__name__])
            other = f"with --data {named}" if named else "without --data Table"
            rule = f"be no table {other}; {_instead('--data', value)}"
            require(named == Table.__name__, option, rule, value)


def check_no_place(option: str, name: str, value: str) -> None:
    """Raise if a file or folder stands where NAME=DATASET:PLACE names a data set."""
    kind = _kind(value)
    if not _is_place(value):
        return
    if kind == "table":
        of_rows = f" or a table ({' or '.join(READ)})" if option == SHIFTED else ""
        require(False, f"{option} {name}", f"name a data set{of_rows}", value)
    read = ":".join(_reader(option, value))
    rule = f"name a data set; for this {kind} type {option} {name}={read}"
    require(False, f"{option} {name}", rule, value)


def check_no_table(inputs: Path) -> None:
    """Raise if a table or an archive stands where images or rows of numbers can."""
    suffix = inputs.suffix.lower()
    rule = (
        "be an image, a folder of images or an array (.npy); a table (.csv) is read by "
        "a run that learned from one (tepui train --data Table)"
    )
    require(suffix not in TABLES, "inputs", rule, str(inputs))
    rule = f"be left out for an archive: --data ArrayFile --data.path {inputs}"
    require(suffix != ".npz", "inputs", rule, str(inputs))


def _check_one_validation(pairs: Sequence[tuple[str, str]]) -> None:
    """Raise if both a share of the training data and other data are to validate."""
    given = [(option, value) for option, value in pairs if _is_of_validation(option)]
    shares = [
        value for option, value in given if option == VALIDATION and _is_number(value)
    ]
    rule = "be a share of the training data, or other data, not both"
    both = bool(shares) and len(shares) < len(given)
    require(not both, VALIDATION, rule, " ".join(f"{o} {v}" for o, v in given))


def _is_of_validation(option: str) -> bool:
    return option == VALIDATION or option.startswith(f"{VALIDATION}.")


def _is_number(value: str) -> bool:
    return value.replace(".", "", 1).isdecimal()


def _is_place(value: str) -> bool:
    known = Path(value).suffix.lower() in (*TABLES, *ARRAYS, *SUFFIXES)
    here = Path(value).is_dir() and not hasattr(tepui.data, value)
    return known or here or "/" in value or "\\" in value


def _kind(value: str) -> str:
    suffix = Path(value).suffix.lower()
    kinds = {"table": TABLES, "file of arrays": ARRAYS, "image": SUFFIXES}
    return next((kind for kind, known in kinds.items() if suffix in known), "folder")


def _instead(option: str, value: str) -> str:
    kind, path = _kind(value), Path(value)
    if kind == "table" and option in _LABELED:
        saved = (
            "" if path.suffix.lower() in READ else f"save it as {path.stem}.csv and "
        )
        file = path.with_suffix(".csv") if saved else path
        return f"{saved}type {option} Table {option}.path {file} {option}.target COLUMN"
    if kind == "table":
        arrays = f"{path.stem}.npz"
        return (
            f'write its numbers from Python, numpy.savez("{arrays}", x_train=..., '
            f"y_train=...), then type {option} ArrayFile {option}.path {arrays}"
        )
    reader, place = _reader(option, value)
    return f"type {option} {reader} {option}.path {place}"


def _reader(option: str, value: str) -> tuple[str, str]:
    """Return which data set reads arrays or images for an option, and from where."""
    kind = _kind(value)
    if kind == "file of arrays":
        return "ArrayFile", value
    labeled = option in (*_LABELED, SHIFTED)
    place = str(Path(value).parent) if kind == "image" else value
    return "ImageFolder" if labeled else "UnlabeledFolder", place
