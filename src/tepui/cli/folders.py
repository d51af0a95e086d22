"""The folders that commands write to: names, what they hold, how to go on in them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tepui.core.checks import require
from tepui.core.free_folder import is_free
from tepui.core.place import place_of_environment
from tepui.ensembles.loading import divergence_in
from tepui.training import SGD, AdamW, RankLost, TrainingDiverged, exchange_here
from tepui.training.member import DataNotFinite
from tepui.training.run_folder import options_in

RUNS = Path("runs")


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
def resumable(
    folder: Path, command: str, optimizer: SGD | AdamW | None = None
) -> Iterator[None]:
    """Say how to go on if the block is stopped by a signal or a lost rank.

    If it diverges, its optimizer is advised again, with a lower rate.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, RankLost) as stop:
        if folder.exists():
            way = f"to continue: tepui {command} --resume --out {folder}"
            say(way, everywhere=isinstance(stop, RankLost))
        raise
    except DataNotFinite as error:
        raise DataNotFinite(
            f"{error}, and begin another run in a new folder (--out)"
        ) from error
    except TrainingDiverged as error:
        raise TrainingDiverged(
            f"{error}\nthe same run would diverge again: begin another in a new folder "
            f"(--out), with a lower learning rate (such as {_lower(optimizer)}) or "
            "with --set clip_norm=1"
        ) from error


def _lower(optimizer: SGD | AdamW | None) -> str:
    """Return the options of the same optimizer with a rate that rarely diverges.

    Example:
        >>> _lower(AdamW(lr=1000))
        "--optimizer 'AdamW(lr=0.001)'"
        >>> _lower(SGD(lr=0.01))
        "--optimizer 'SGD(lr=0.001)'"
    """
    used = SGD() if optimizer is None else optimizer
    rates = used.lr if isinstance(used.lr, tuple) else (used.lr,)
    rate = min(min(rates) / 10, 0.001 if isinstance(used, AdamW) else 0.01)
    return f"--optimizer '{type(used).__name__}(lr={rate:g})'"


def say(line: str, *, everywhere: bool = False) -> None:
    """Tell the user something; under torchrun one process does, unless all are to."""
    if everywhere or place_of_environment().rank == 0:
        sys.stderr.write(f"tepui: {line}\n")


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
