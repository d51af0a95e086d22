"""Whether something new may begin in a folder."""

from collections.abc import Collection
from pathlib import Path

from tepui.core.lease import LEASE
from tepui.core.replacing import is_unfinished


def is_free(folder: Path, kept: Collection[str] = ()) -> bool:
    """Whether there is no such folder, or nothing of value in it.

    That is nothing but what is unfinished, leases, and folders of nothing else.

    Args:
        folder: The folder.
        kept: Names in it that do not count, such as of results that are used again.
    """
    return not folder.exists() or all(
        item.name in kept or _is_nothing(item) for item in folder.iterdir()
    )


def _is_nothing(item: Path) -> bool:
    if is_unfinished(item) or item.name.endswith(LEASE):
        return True
    return item.is_dir() and not item.is_symlink() and is_free(item)
