"""``tepui data``: what data sets are known and present; fetch them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tepui.cli.console import console, table
from tepui.cli.settings import first_line
from tepui.core.checks import one_of, require
from tepui.core.names import PLACES, known

if TYPE_CHECKING:
    from tepui.data.published import Origin


def data(
    action: str = "list",
    name: str | None = None,
    /,
    *,
    root: Path | None = None,
) -> None:
    """List data sets; fetch one.

    Such as:

        tepui data
        tepui data fetch CIFAR10
        tepui settings ImageFolder

    Args:
        action: List the sets, or fetch one.
        name: Which one to fetch.
        root: The data folder; the one TEPUI_DATA names by default.
    """
    from tepui.data.published import data_folder, install

    sets = in_files()
    one_of("action", action, ["list", "fetch"])
    if action == "list":
        require(name is None, "action", "be fetch with a name", action)
        rows = [(n, first_line(s), *_presence(s.origin, root)) for n, s in sets.items()]
        for other in sorted({*PLACES["data"]} - sets.keys()):
            rows.append((other, first_line(known("data", other)), "", ""))
        headings = ("name", "what", "present", "how to get it")
        console().print(table("data sets", headings, rows))
        console().print(f"data folder: {root or data_folder()}")
        console().print("how one is written: tepui settings NAME")
        return
    name = name or ""
    one_of("name", name, sets)
    origin = sets[name].origin
    if not origin.downloads:
        raise ValueError(f"{name} cannot be fetched. {origin.by_hand}")
    for download in origin.downloads:
        console().print(f"{download.url}\n{download.known_hash}")
    console().print(f"installed in {install(origin, root)}")


def in_files() -> dict[str, Any]:
    """Return the data sets that lie in the data folder, by name."""
    kinds = {name: known("data", name) for name in sorted(PLACES["data"])}
    return {name: kind for name, kind in kinds.items() if hasattr(kind, "origin")}


def _presence(origin: "Origin", root: Path | None) -> tuple[str, str]:
    """Return where a data set lies, and how to get it."""
    folder = origin.find(root)
    size = sum(download.size for download in origin.downloads) / 1e6
    fetched = f"fetch: {size:,.0f} MB. " if origin.downloads else ""
    return "no" if folder is None else folder.name, f"{fetched}{origin.by_hand}".strip()
