"""The folders that commands read and write: names, what they hold, how to go on."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from tepui.core.checks import nearest, require
from tepui.core.lease import is_free
from tepui.core.processes import place_of_environment
from tepui.core.text import printable
from tepui.data import Table
from tepui.data.prepared_like import image_shape
from tepui.data.shifts import Shifts
from tepui.ensembles.ensemble import FILE
from tepui.ensembles.loading import DIVERGED, RUN, divergence_in
from tepui.studies.verifying import UNSEALED, verify
from tepui.training import RankLost, TrainingDiverged, exchange_here
from tepui.training.run_folder import options_in

RUNS = Path("runs")
DEPTH = 3  # of a comparison's folders, whose runs lie by method and ensemble
SHOWN = 3


def folder_for(
    command: str, out: Path | None, resume: bool, within: Path = RUNS
) -> Path:
    """Return the folder of a run: the one asked for, or the next free one.

    What is resumed where nothing is begins there, so that a script can ask for it each
    time it is started; that is said. Under torchrun rank 0 says which folder is free.
    """
    require(not resume or out is not None, "--out", "be given to resume a run", None)
    if out is not None:
        if resume and is_free(out):
            say(f"nothing to continue in {out}, so this is its beginning")
        return out
    names = (within / f"{command}-{number:03d}" for number in count(1))
    return exchange_here().told(next(path for path in names if not path.exists()))


@contextmanager
def resumable(folder: Path, command: str) -> Iterator[None]:
    """Say how to go on if the block is stopped by a signal or a lost rank."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, RankLost) as stop:
        if folder.exists():
            way = f"to continue: tepui {command} --resume --out {folder}"
            say(way, everywhere=isinstance(stop, RankLost))
        raise
    except TrainingDiverged as error:
        then = f"begin another run in a new folder (--out), {error.remedy}"
        raise type(error)(f"{error}\n{then}") from error


def say(line: str, *, everywhere: bool = False) -> None:
    """Tell the user something; under torchrun one process does, unless all are to."""
    if everywhere or place_of_environment().rank == 0:
        sys.stderr.write(f"tepui: {printable(line, lines=True)}\n")


def say_of_shifts(test: Dataset[Any], shifts: Shifts, strength: str | None) -> None:
    """Say what rows of tables hold that no training row has, and of no images."""
    if strength is None and not shifts.copies and image_shape(test) is None:
        say("no corrupted data, since inputs are not images")
    for name, data in shifts.natural.items():
        for words in data.remarks if isinstance(data, Table) else ():
            say(f"--shifted {name}: {words}")


def require_free(folder: Path, resume: bool, kept: str, heads: Path) -> None:
    """Raise if a new run's folder holds something already but what is kept there.

    Options without a run are of one that failed at first.
    """
    if not resume and not is_free(folder, (kept, *options_in(folder))):
        if diverged := divergence_in(folder / heads):
            raise FileExistsError(diverged)
        raise FileExistsError(
            f"{folder} is not empty; pass --resume to continue the run in it, or "
            "choose another folder"
        )


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


def check_run(place: Path, *, weights: bool = True) -> None:
    """Raise unless a folder is that of one run; the message names those inside.

    Args:
        place: The folder, or a file.
        weights: Whether a folder may hold weights instead.
    """
    check_there(place)
    if not place.is_dir() or _is_run(place):
        return
    inside = [str(run) for run in runs_below(place, DEPTH)]
    if inside:
        some = ", ".join([*inside[:SHOWN], *(["…"] if len(inside) > SHOWN else [])])
        raise FileNotFoundError(f"{place} is not a run but holds some: {some}")
    rule = "be the folder of a run or of a saved ensemble, which this one is not"
    require(weights, "RUN", rule, str(place))


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


def end_if_left_out(left_out: Mapping[Path, str], count: int) -> None:
    """Name images without a prediction on standard error, and end with status 1."""
    if not left_out:
        return
    total = count + len(left_out)
    said = f"{len(left_out)} of {total} images cannot be read and have no prediction:"
    sys.stderr.write("\n  ".join([f"tepui: {said}", *left_out.values()]) + "\n")
    raise SystemExit(1)


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
