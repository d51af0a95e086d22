"""Rows of another table, read by the columns of the one that a run learned from."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from tepui.cli.admission import listed
from tepui.cli.known import SHIFTED
from tepui.cli.parsing import options_of
from tepui.cli.words_first import with_words_first
from tepui.core.checks import require
from tepui.data import Table
from tepui.studies.recorded_options import recorded_options

_TARGET = "--data.target"
# Commands whose first word is a run, which may say what it learned from.
_OF_RUNS = ("evaluate", "predict")


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
    rule = "be no table where the data of the run are none"
    if not isinstance(table, Table):
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
    owner = f"{option}: " if " " in option else f"{option}."
    rule = f"be that of the run's own rows ({target})"
    require(given["target"] == target, f"{owner}target", rule, given["target"])
    rule = "be left out: columns are read as the run's own"
    for name, default in (("ignore", ()), ("kind", None), ("missing", "refuse")):
        value = given.get(name)
        same = value in (None, default, own.get(name))
        require(same, f"{owner}{name}", rule, value)


def with_targets(arguments: Sequence[str]) -> list[str]:
    """Return the words with the target of other tables, which a run knows.

    They are for the parser alone: what a run's file says was not typed, and admits
    nothing.

    Example:
        >>> with_targets(["evaluate", "nowhere", "--data", "Table"])
        ['evaluate', 'nowhere', '--data', 'Table']
    """
    words, pairs = list(arguments), dict(options_of(arguments))
    target = pairs.get(_TARGET) or _target_of(words)
    if target is None:
        return words
    if pairs.get("--data") == Table.__name__ and _TARGET not in pairs:
        words.append(f"{_TARGET}={target}")  # one word, whatever it begins with
    if pairs.get(SHIFTED, "").startswith("{"):
        sets = json.loads(pairs[SHIFTED])
        told = json.dumps({name: _with(each, target) for name, each in sets.items()})
        words[words.index(SHIFTED) + 1] = told
    return words


def _target_of(words: Sequence[str]) -> str | None:
    """Return what a run learned to predict from a table."""
    first = with_words_first(words)[1:2]
    if words[0] not in _OF_RUNS or not first or first[0].startswith("-"):
        return None
    match recorded_options(Path(first[0])).get("data"):
        case {"class_path": str(kind), "init_args": {"target": str(target)}}:
            return target if listed().get(kind) is Table else None
    return None


def _with(named: Any, target: str) -> Any:
    if not isinstance(named, dict) or named.get("class_path") != Table.__name__:
        return named
    return {**named, "init_args": {"target": target, **named.get("init_args", {})}}
