"""Folders of runs that commands are about: those that are missing, or hold several."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tepui.core.checks import nearest, require
from tepui.ensembles.ensemble import FILE
from tepui.ensembles.loading import DIVERGED, RUN
from tepui.studies.verifying import UNSEALED, verify

RUNS = Path("runs")
DEPTH = 3  # of a comparison's folders, whose runs lie by method and ensemble
SHOWN = 3


def check_there(place: Path) -> None:
    """Raise unless a folder or file is there; the message names the nearest run."""
    if place.exists():
        return
    # What lies beside it may be a whole disk: no further than its own folders.
    beside = {place.parent: 1, RUNS: DEPTH}
    near = dict.fromkeys(
        str(run) for root, depth in beside.items() for run in runs_below(root, depth)
    )
    raise FileNotFoundError(f"no file or folder {place}{nearest(str(place), near)}")


def check_run(place: Path) -> None:
    """Raise unless a folder is that of one run; the message names those inside."""
    check_there(place)
    if not place.is_dir() or _is_run(place):
        return
    inside = [str(run) for run in runs_below(place, DEPTH)]
    if inside:
        raise FileNotFoundError(
            f"{place} is not a run but holds {_counted(inside)}: {_some(inside)}; name "
            "one of them"
        )


def check_replaced(out: Path, written: str | None, overwrite: bool) -> None:
    """Raise if a file is there, unless it is to be replaced and no file of a run.

    Args:
        out: The file to write.
        written: What files of its kind say that they hold, if they are sealed.
        overwrite: Whether it is to be replaced.

    Raises:
        FileExistsError: If it is there and may not be replaced.
        ValueError: If it is another file of tepui's, such as the weights of a run.
    """
    if not out.exists():
        return
    if not overwrite:
        raise FileExistsError(f"{out} exists; pass --overwrite to replace it")
    kinds = [finding.kind for finding in verify(out)] if out.is_file() else []
    rule = "not be a file of a run, which would be lost"
    require({*kinds} <= {UNSEALED, written}, "--out", rule, str(out))


def runs_below(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the runs in a folder, in the order of their names, at most so deep.

    Folders that may not be read hold none.
    """
    if depth == 0:
        return
    _, names, _ = next(os.walk(folder), ("", [], []))
    for inside in (folder / name for name in sorted(names)):
        if _is_run(inside):
            yield inside
        else:
            yield from runs_below(inside, depth - 1)


def _is_run(folder: Path) -> bool:
    try:
        return any((folder / name).is_file() for name in (FILE, RUN, DIVERGED))
    except PermissionError:
        return False


def _counted(runs: Sequence[str]) -> str:
    return "one" if len(runs) == 1 else f"{len(runs)} runs"


def _some(runs: Sequence[str]) -> str:
    more = ", …" if len(runs) > SHOWN else ""
    return f"{', '.join(runs[:SHOWN])}{more}"
