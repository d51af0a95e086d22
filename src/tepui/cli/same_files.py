"""Whether two places hold the same files: links, hard links and copies included."""

import filecmp
from collections.abc import Collection
from pathlib import Path


def same_files(first: Collection[Path], second: Collection[Path]) -> bool:
    """Return whether one of some places holds what one of some others holds.

    A file is read only where one of its name and size is in the other place, and no
    further than to the first difference.

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
    return any(
        sizes[one] == sizes[other] != {}
        and all(_same_bytes(one / name, other / name) for name in sizes[one])
        for one in first
        for other in second
    )


def _sizes(place: Path) -> dict[Path, int]:
    """Return the size of each file by its name in a place, of a file its own."""
    files = place.rglob("*") if place.is_dir() else [place]
    return {f.relative_to(place): f.stat().st_size for f in files if f.is_file()}


def _same_bytes(first: Path, second: Path) -> bool:
    return first.samefile(second) or filecmp.cmp(first, second, shallow=False)
