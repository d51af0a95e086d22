"""Rows of another table, read by the columns of the one that a run learned from."""

from collections.abc import Mapping
from typing import Any

from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.data import Table


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
    owner = f"{option}: "
    rule = f"be that of the run's own rows ({target})"
    asked = given.get("target", target)
    require(asked == target, f"{owner}target", rule, asked)
    rule = "be left out: columns are read as the run's own"
    for name, default in (("ignore", ()), ("kind", None), ("missing", "refuse")):
        value = given.get(name)
        same = value in (None, default, own.get(name))
        require(same, f"{owner}{name}", rule, value)
