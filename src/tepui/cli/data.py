"""``tepui data``: what data sets are known and present; fetch them."""

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tepui.cli.console import console, table
from tepui.cli.settings import arguments_table, first_line
from tepui.core.checks import one_of, require
from tepui.core.names import PLACES, known

if TYPE_CHECKING:
    from tepui.data.files.published import Origin


def data(
    action: str = "list",
    name: str | None = None,
    /,
    *,
    root: Path | None = None,
) -> None:
    """List data sets; explain or fetch one.

    Such as:

        tepui data
        tepui data fetch CIFAR10
        tepui data ImageFolder

    Args:
        action: List all sets, fetch one, or the name of one, whose arguments it shows.
        name: Which one to fetch.
        root: The data folder; the one TEPUI_DATA names by default.
    """
    from tepui.data.files.published import data_folder, install

    sets = in_files()
    one_of("action", action, ["list", "fetch", *PLACES["data"]])
    if action in PLACES["data"]:
        console().print(arguments_table(known("data", action)))
        return
    if action == "list":
        require(name is None, "action", "be fetch with a name", action)
        rows = [(n, first_line(s), *_presence(s.origin, root)) for n, s in sets.items()]
        others = sorted({*PLACES["data"]} - sets.keys())
        rows += [(other, *_by_signature(known("data", other))) for other in others]
        headings = ("name", "what", "present", "needs")
        console().print(table("data sets", headings, rows))
        console().print(f"data folder: {root or data_folder()}")
        return
    name = name or ""
    one_of("name", name, sets)
    origin = sets[name].origin
    if not origin.downloads:
        raise ValueError(f"{name} cannot be fetched. {origin.by_hand}")
    for download in origin.downloads:
        console().print(
            f"{download.url}\n{download.known_hash}, from {download.published_by}"
        )
    console().print(f"installed in {install(origin, root)}")


def in_files() -> dict[str, Any]:
    """Return the data sets that lie in the data folder, by name."""
    kinds = {name: known("data", name) for name in sorted(PLACES["data"])}
    return {name: kind for name, kind in kinds.items() if hasattr(kind, "origin")}


def _presence(origin: "Origin", root: Path | None) -> tuple[str, str]:
    """Return where a data set lies, and how to get it."""
    from tepui.data.files.published import data_folder

    folder, base = origin.find(root), root or data_folder()
    if folder is not None and folder.is_relative_to(base):
        folder = folder.relative_to(base)
    size = sum(download.size for download in origin.downloads) / 1e6
    fetched = f"fetch: {size:,.0f} MB. " if origin.downloads else ""
    return "no" if folder is None else str(folder), f"{fetched}{origin.by_hand}".strip()


def _by_signature(dataset: Any) -> tuple[str, str, str]:
    """Describe a data set that needs no folder of its own."""
    taken = inspect.signature(dataset).parameters
    needed = [name for name, each in taken.items() if each.default is each.empty]
    typed = dataset.__name__
    if needed:
        typed += f"({', '.join(f'{name}=...' for name in needed)})"
    option = "--data" if "train" in taken else "--ood NAME="
    needs = f"{option} '{typed}'".replace("= '", "='")
    return first_line(dataset), "" if needed else "yes", needs
