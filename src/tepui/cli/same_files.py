"""Whether two places hold the same files: links, hard links and copies included."""

import filecmp
from collections.abc import Collection
from itertools import product
from pathlib import Path

from tepui.data.image_files import images_in


def same_files(first: Collection[Path], second: Collection[Path]) -> bool:
    """Return whether one of some places holds all that one of some others holds.

    Of a folder with images these count alone, and hidden files nowhere. A file is read
    only where one of its name and size is in the other place, and no further than to
    the first difference.

    Args:
        first: Files or folders. What is in a folder goes by its name in it.
        second: Others.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     one, copy, other = (Path(folder, name) for name in "abc")
        ...     _ = one.write_text("x,y"), copy.write_text("x,y"), other.write_text("x")
        ...     same_files([one], [copy]), same_files([one], [other])
        (True, False)
    """
    if {*first} & {*second}:
        return True
    sizes = {place: _sizes(place) for place in (*first, *second)}
    for one, other in product(first, second):
        shared = sizes[one].items() & sizes[other].items()
        within = len(shared) == min(len(sizes[one]), len(sizes[other])) > 0
        if within and all(_same_bytes(one / name, other / name) for name, _ in shared):
            return True
    return False


def _sizes(place: Path) -> dict[Path, int]:
    """Return the size of each file by its name in a place, of a file its own."""
    if not place.is_dir():
        return {Path(): place.stat().st_size} if place.is_file() else {}
    files = images_in(place) or (file for file in place.rglob("*") if file.is_file())
    named = {file.relative_to(place): file for file in files}
    return {
        name: file.stat().st_size
        for name, file in named.items()
        if not any(part.startswith(".") for part in name.parts)
    }


def _same_bytes(first: Path, second: Path) -> bool:
    return first.samefile(second) or filecmp.cmp(first, second, shallow=False)
