"""The suites by name."""

import os
import shutil
from pathlib import Path

from faults import calls, disk, files, kills, naming, resumes
from faults.engine import Suite
from faults.totals import WRONG


def bad_call(seed: int, root: Path) -> tuple[str, str]:
    """Make a bad call."""
    folder = root / f"calls{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    end = calls.outcome(seed)
    path, _, name = calls.bad_call(seed)
    where = "where users come in first" if path in calls.DOORS else "elsewhere"
    fine = end in ("refused", "accepted", "at work")
    return where, end if fine else f"{WRONG}: {path}({name}): {end}"


def naming_attempt(seed: int, root: Path) -> tuple[str, str]:
    """Try to name something from a configuration."""
    folder = root / f"naming{seed}"
    folder.mkdir(parents=True)
    try:
        end = naming.outcome(seed, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    command = naming.attempt(seed).words[0]
    fine = end in ("refused", "accepted")
    return command, end if fine else f"{WRONG}: {end}"


SUITES = {
    "kills": Suite(kills.outcome, "kills at random moments", 900, 20),
    "disk": Suite(disk.outcome, "errors of the disk", 900, 20),
    "files": Suite(files.outcome, "damaged files", 60, 2000),
    "resumes": Suite(resumes.outcome, "resumes from damaged state", 300, 50),
    "calls": Suite(bad_call, "bad calls", 60, 500),
    "naming": Suite(naming_attempt, "naming attempts", 60, 200),
}
