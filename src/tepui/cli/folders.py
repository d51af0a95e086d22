"""The folders that commands read and write: names, what they hold, how to go on."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, final

from tepui.cli.config import OF_ONE_COMMAND
from tepui.cli.settings import ANEW, KINDS, last_of_each
from tepui.cli.values import Text
from tepui.core.checks import require
from tepui.core.lease import is_free
from tepui.core.names import PLACES as NAMES
from tepui.core.processes import place_of_environment
from tepui.core.provenance import masked
from tepui.core.replacing import check_writable
from tepui.core.spec import written
from tepui.core.storage import write_document
from tepui.core.text import printable
from tepui.data.sources import PLACES
from tepui.ensembles.ensemble import FILE
from tepui.ensembles.loading import DIVERGED, RUN, divergence_in
from tepui.studies.verifying import UNSEALED, verify
from tepui.training import Callback, RankLost, TrainingDiverged, exchange_here
from tepui.training.run_folder import OPTIONS, OPTIONS_KIND, options_in

RUNS = Path("runs")


def folder_for(
    command: str, out: Path | None, resume: bool, within: Path = RUNS
) -> Path:
    """Return the folder of a run, which can be written: asked for, or the next free.

    What is resumed where nothing is begins there, so that a script can ask for it each
    time it is started; that is said. Under torchrun rank 0 says which folder is free.
    """
    require(not resume or out is not None, "--out", "be given to resume a run", None)
    if resume and out is not None and is_free(out):
        say(f"nothing to continue in {out}, so this is its beginning")
    names = (within / f"{command}-{number:03d}" for number in count(1))
    free = out or exchange_here().told(next(p for p in names if not p.exists()))
    check_writable(free)
    return free


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
    """Raise unless a folder or file is there."""
    if not place.exists():
        raise FileNotFoundError(f"no file or folder {place}")


def check_run(place: Path, *, weights: bool = True) -> None:
    """Raise unless a folder is that of a run, or may hold weights instead."""
    check_there(place)
    a_run = any((place / name).is_file() for name in (FILE, RUN, DIVERGED))
    rule = "be the folder of a run or of a saved ensemble, which this one is not"
    require(weights or not place.is_dir() or a_run, "RUN", rule, str(place))


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


def asked(command: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a command as they are kept.

    They are found from anywhere, and without secrets.
    """
    kept = {
        name: _kept(value)
        for name, value in options.items()
        if name not in OF_ONE_COMMAND and value not in (None, [], {})
    }
    if "set" in kept:
        words = last_of_each(options["set"])
        kept["set"] = {n: _setting(n, t) for n, t in words.items() if n not in ANEW}
    return {"command": command, "options": masked(kept)}


@final
class Keeping(Callback):
    """Writes into a folder what a command was asked for, before the first step."""

    def __init__(self, folder: Path, command: str, options: Mapping[str, Any]) -> None:
        self._folder, self._asked = folder, asked(command, options)

    def on_start(self, config: Mapping[str, Any] | None = None) -> None:
        """Write it."""
        write_document(self._folder / OPTIONS, OPTIONS_KIND, self._asked)


def _kept(value: Any) -> Any:
    if isinstance(value, Text):
        if value.kind in NAMES:
            return placed(value)
        return str(Path(value).absolute()) if Path(value).is_dir() else str(value)
    if isinstance(value, Mapping):
        return [f"{name}={_kept(item)}" for name, item in value.items()]
    if isinstance(value, list | tuple):
        return [_kept(item) for item in value]
    if isinstance(value, Path):
        return str(value.absolute() if value.exists() else value)
    return value


def _setting(name: str, text: Text) -> str:
    """Return the value of a setting as a file holds it."""
    if text in ("None", "none") or name not in KINDS:
        return str(_kept(text) if name in ("extractor", "branch_from") else text)
    return placed(Text(text, KINDS[name], text.typed))


def placed(text: Text) -> str:
    """Return a value as a file holds it: quoted, and found from anywhere."""
    value = text.read()
    if not isinstance(value, partial):
        return written(value) if "(" in text else str(text)
    given = {
        name: str(Path(item).expanduser().absolute()) if name in PLACES else item
        for name, item in value.keywords.items()
    }
    return written(partial(value.func, **given))
