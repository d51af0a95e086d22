"""The folders that commands write to: names, what they hold, how to go on in them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tepui.core.checks import require
from tepui.core.replacing import is_free
from tepui.training import RankLost, exchange_here
from tepui.training.ranks import place_of_environment


def folder_for(command: str, out: Path | None, resume: bool) -> Path:
    """Return the folder of a run: the one asked for, or the next free one.

    Under torchrun rank 0 says which is free.
    """
    require(not resume or out is not None, "--out", "be given to resume a run", None)
    if out is not None:
        return out
    names = (Path("runs") / f"{command}-{number:03d}" for number in count(1))
    return exchange_here().told(next(path for path in names if not path.exists()))


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Say how to go on if the block is stopped by a signal or a lost rank."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, RankLost) as stop:
        speaks = isinstance(stop, RankLost) or place_of_environment().rank == 0
        if folder.exists() and speaks:
            way = f"to continue, add --resume --out {folder} to the same command"
            sys.stderr.write(f"tepui: {way}\n")
        raise


def require_free(folder: Path, resume: bool) -> None:
    """Raise if a new run's folder holds something already."""
    if not resume and not is_free(folder):
        raise FileExistsError(
            f"{folder} is not empty; pass --resume to continue the run in it, or "
            "choose another folder"
        )
