"""Runs that are resumed from damaged files: refused, or ended in the same bits."""

import random
import shutil
import signal
from pathlib import Path
from unittest import mock

from faults.children import BLOCKED, ended, forked, last_words
from faults.kills import dying
from faults.once import made_once
from faults.scenarios import SCENARIOS, contents, differences, reference
from faults.totals import WRONG
from mutations import damaged
from tepui.core import lease
from tepui.studies import store
from tepui.studies.verifying import verify
from tepui.training import run_folder

TURNS = ("training", "exchange", "checkpoint", "training", "store")
HALVES = 4  # states of every scenario, killed at different moments


def half(name: str, number: int, root: Path) -> Path:
    """Return a piece of work that was killed somewhere, made once."""
    whole = reference(name, root)
    last = whole.operations * (number + 2) // (HALVES + 2)

    def make(folder: Path) -> None:
        work = folder / "whole"
        work.mkdir()
        ended(
            forked(
                lambda: dying(SCENARIOS[name], work, signal.SIGKILL, last),
                folder / "log",
            )
        )

    return made_once(root / "halves" / f"{name} {number}", make) / "whole"


def outcome(seed: int, root: Path) -> tuple[str, str]:
    """Damage one file of a run that was killed, and resume it."""
    draw = random.Random(f"resumes {seed}")
    name = TURNS[seed % len(TURNS)]
    whole, folder = reference(name, root), root / f"resume{seed}"
    folder.mkdir(parents=True)
    try:
        work = folder / "whole"
        shutil.copytree(half(name, draw.randrange(HALVES), root), work)
        file = draw.choice(_files(work))
        kind = file.parent.name if file.parent.name == "checkpoint" else file.name
        kind = "lease" if lease.LEASE in str(file) else kind
        file.write_bytes(damaged(file.read_bytes(), seed))
        end = _resumed(name, folder, file, whole.contents)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return f"{name}, {kind}", end


def _files(folder: Path) -> list[Path]:
    found = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return [file for file in found if file.stat().st_size and file.suffix != ".tmp"]


def _resumed(name: str, folder: Path, file: Path, whole: dict[str, object]) -> str:
    work, log = folder / "whole", folder / "log"
    code = ended(forked(lambda: _impatient(name, work), log))
    if code == 0:
        return _end_of(work, file, whole)
    words = last_words(log)
    if code == BLOCKED:
        return f"{WRONG}: hang"
    own = words.startswith(("ValueError: ", "FileNotFoundError: ", "tepui.studies.job"))
    if own and file.name in words:
        return "refused by name"
    return f"{WRONG}: {file.relative_to(work)}: {code} {words}"


def _end_of(work: Path, file: Path, whole: dict[str, object]) -> str:
    """Return what is left of damage after work that ended well."""
    found = {finding.file for finding in verify(work) if finding.damage is not None}
    if file in found:
        return "not needed, found by tepui verify"
    wrong = differences(contents(work), whole)
    return f"{WRONG}: {wrong}" if wrong else "same bits"


def _impatient(name: str, work: Path) -> None:
    """Go on; a lease whose holder cannot be made out is waited for a second."""

    def leased(folder, stale_after=1.0, *, wait=True):
        return lease.leased(folder, 1.0, wait=wait)

    with (
        mock.patch.object(run_folder, "leased", leased),
        mock.patch.object(store, "leased", leased),
    ):
        SCENARIOS[name].work(work)
