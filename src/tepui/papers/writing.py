"""Writing what a recipe made: all files or none, and nothing replaced by accident."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tepui.core.replacing import check_writable, write_bytes


def write_files(
    folder: str | Path, contents: Mapping[str, bytes], *, overwrite: bool = False
) -> list[Path]:
    """Write files into a folder, after a look whether one of them is there."""
    paths = free_paths(folder, list(contents), overwrite=overwrite)
    for path, content in zip(paths, contents.values(), strict=True):
        write_bytes(path, content)
    return paths


def free_paths(
    folder: str | Path, names: Sequence[str], *, overwrite: bool = False
) -> list[Path]:
    """Return files of a folder, for a look before a long computation."""
    check_writable(Path(folder))
    paths = [Path(folder) / name for name in names]
    for path in paths:
        if path.exists() and not overwrite:
            raise FileExistsError(
                f"{path} exists; pass overwrite=True (--overwrite) to replace it"
            )
    return paths


def as_json(document: object) -> bytes:
    """Return a document as JSON; non-finite numbers are refused."""
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()


def as_markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table: text on the left, numbers on the right.

    Example:
        >>> print(as_markdown(["method", "accuracy"], [["SAM", "0.9"]]), end="")
        | method | accuracy |
        |---|---:|
        | SAM | 0.9 |
    """
    rule = "|".join(["---", *["---:"] * (len(headings) - 1)])
    lines = [f"| {' | '.join(cells)} |" for cells in (headings, *rows)]
    return "\n".join([lines[0], f"|{rule}|", *lines[1:]]) + "\n"
