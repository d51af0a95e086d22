"""Errors of the disk at any file operation: one sentence, and nothing is lost."""

import errno
import json
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

from faults.children import ended, forked, last_words
from faults.kills import BY_SIGNAL
from faults.scenarios import SCENARIOS, contents, differences, reference
from faults.shim import at_operations
from faults.totals import WRONG
from tepui.core.lease import LeaseLostError
from tepui.studies.job import JobError

FAULTS = ("ENOSPC", "EFBIG", "EIO", "EACCES", "EROFS", "EDQUOT")
VANISHED = "vanished folder"
TURNS = (
    *("training", "exchange", "checkpoint", "evaluation", "predictions", "features"),
    *("saving", "corrupted copies", "training", "checkpoint", "store", "predictions"),
    *("training", "exchange", "checkpoint", "evaluation", "predictions", "sweep"),
)
COMMAND = "SystemExit"
OWN = (OSError, JobError, LeaseLostError)


def outcome(seed: int, root: Path) -> tuple[str, str]:
    """Let a file operation fail; return what came of it."""
    draw = random.Random(f"disk {seed}")
    name, fault = TURNS[seed % len(TURNS)], draw.choice((*FAULTS, VANISHED))
    folder = root / f"disk{seed}"
    folder.mkdir(parents=True)
    try:
        end = _outcome(name, fault, folder, draw, root)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return f"{name}, {fault}", end


def _outcome(
    name: str, fault: str, folder: Path, draw: random.Random, root: Path
) -> str:
    whole, work, log = reference(name, root), folder / "whole", folder / "log"
    run = SCENARIOS[name].work
    work.mkdir()
    if draw.random() < 0.5:  # there is an older state, of a run that was interrupted
        last = draw.randint(1, whole.operations)
        ended(forked(lambda: _watched(run, work, _killing(last)), log))
    number, lasting = draw.randint(1, whole.operations), draw.random() < 0.5
    faulty = (
        _removing(number, work)
        if fault == VANISHED
        else _failing(number, fault, lasting)
    )
    told = folder / "told.json"
    child = forked(lambda: _telling(lambda: _watched(run, work, faulty), told), log)
    code = ended(child)
    if not told.exists():
        return f"{WRONG}: ended in {code}: {last_words(log)}"
    kind, own, message = json.loads(told.read_text())
    message = last_words(log) if kind == COMMAND else message
    if wrong := _complaint(own, kind, message, folder, child, fault):
        return f"{WRONG}: {wrong}"
    if fault == VANISHED and kind:  # as the sentence says: again in a new folder
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
    log = folder / "log of the second"
    code = ended(forked(lambda: run(work), log)) if kind else 0
    after = f"(after {kind}: {message})"
    if code:
        return f"{WRONG}: afterwards it ended in {code}: {last_words(log)} {after}"
    if wrong := differences(contents(work), whole.contents):
        return f"{WRONG}: {wrong} {after}"
    return "one sentence, then same bits" if kind else "went on, same bits"


def _complaint(
    own: bool, kind: str, message: str, folder: Path, child: int, fault: str
) -> str:
    """Return what is wrong with how a process met a fault."""
    left = [
        str(file.relative_to(folder))
        for file in folder.rglob("*.tmp")
        if f"-{child}-" in file.name
    ]
    if left:
        return f"left behind {left}"
    if not kind:
        return ""
    if not own:
        return f"foreign {kind}: {message}"
    if str(folder) not in message or "\n" in message.strip():
        return f"not one sentence with a file's name: {kind}: {message}"
    return ""


def _telling(work: Callable[[], None], told: Path) -> None:
    """Do something, and write down the error it ends in."""
    try:
        work()
    except Exception as error:
        known = isinstance(error, OWN)
        found = [type(error).__name__, known, str(error)]
    except SystemExit as end:  # a command, which has told its log
        found = [COMMAND, end.code not in BY_SIGNAL, ""]
    else:
        found = ["", True, ""]
    told.write_text(json.dumps(found))


Act = Callable[[int, str, Path], None]


def _watched(run: Callable[[Path], None], folder: Path, act: Act) -> None:
    with at_operations(folder, act):
        run(folder)


def _killing(last: int) -> Act:
    def act(number: int, operation: str, path: Path) -> None:
        if number == last:
            os.kill(os.getpid(), signal.SIGKILL)

    return act


def _failing(first: int, fault: str, lasting: bool) -> Act:
    code = getattr(errno, fault)

    def act(number: int, operation: str, path: Path) -> None:
        if number == first or (lasting and number > first):
            raise OSError(code, os.strerror(code), str(path))

    return act


def _removing(last: int, folder: Path) -> Act:
    def act(number: int, operation: str, path: Path) -> None:
        if number == last:
            shutil.rmtree(folder)

    return act
