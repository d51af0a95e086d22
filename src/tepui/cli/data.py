"""``tepui data``: what data sets are known and present; fetch them."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from tepui import data as datasets
from tepui.cli.console import console, table
from tepui.cli.known import OOD, known_names, known_spelling
from tepui.core.checks import one_of, require
from tepui.data.files.installing import install
from tepui.data.files.origins import Origin, data_folder

EXAMPLE = "tepui data fetch CIFAR10"

Verb = Literal["list", "fetch"]


def data(
    action: Verb = "list", name: str | None = None, root: Path | None = None
) -> None:
    """List data sets; fetch one.

    Args:
        action: List all sets, or fetch one.
        name: Which one to fetch.
        root: The data folder; the one TEPUI_DATA names by default.
    """
    if action == "list":
        require(name is None, "action", "be fetch with a name", action)
        console().print(_table(root), f"data folder: {root or data_folder()}")
        return
    files = dict(in_files())
    name = known_spelling(name or "", files)
    one_of("name", name, files)
    _fetch(name, files[name], root)


def _fetch(name: str, dataset: Any, root: Path | None) -> None:
    origin: Origin = dataset.origin
    if not origin.downloads:
        raise ValueError(f"{name} cannot be fetched. {origin.by_hand}")
    for download in origin.downloads:
        console().print(
            f"{download.url}\n{download.known_hash}, from {download.published_by}"
        )
    console().print(f"installed in {install(origin, root)}")


def _table(root: Path | None) -> Table:
    known, files = known_names(), dict(in_files())
    rows = [
        (name, _about(dataset), *_presence(dataset.origin, root))
        for name, dataset in files.items()
    ]
    for name in sorted({*known["--data"], *known[OOD]} - files.keys()):
        labeled = name in known["--data"]
        rows.append((name, *_by_signature(getattr(datasets, name), labeled)))
    return table("data sets", ("name", "what", "present", "needs"), rows)


def _presence(origin: Origin, root: Path | None) -> tuple[str, str]:
    """Return where a data set lies, and how to get it."""
    folder, base = origin.find(root), root or data_folder()
    if folder is not None and folder.is_relative_to(base):
        folder = folder.relative_to(base)
    size = sum(download.size for download in origin.downloads) / 1e6
    fetched = f"fetch: {size:,.0f} MB. " if origin.downloads else ""
    return "no" if folder is None else str(folder), f"{fetched}{origin.by_hand}".strip()


def _about(dataset: Any) -> str:
    return str(dataset.__doc__).splitlines()[0].rstrip(".")


def _by_signature(dataset: Any, labeled: bool) -> tuple[str, str, str]:
    """Describe a data set that needs no folder of its own."""
    needed = [
        name
        for name, parameter in inspect.signature(dataset).parameters.items()
        if parameter.default is inspect.Parameter.empty
    ]
    if labeled:
        needs = " ".join(f"--data.{name}" for name in needed) or "nothing"
    else:
        needs = f"{OOD} NAME={dataset.__name__}{':FOLDER' if needed else ''}"
    return _about(dataset), "" if needed else "yes", needs


def in_files() -> Iterator[tuple[str, Any]]:
    """Yield the data sets that lie in the data folder, by name."""
    for name, item in inspect.getmembers(datasets, inspect.isclass):
        if isinstance(getattr(item, "origin", None), Origin):
            yield name, item
