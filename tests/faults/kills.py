"""Kills at random moments: what is begun again ends as if nothing had happened."""

import os
import random
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from unittest import mock

from faults.children import BLOCKED, ended, forked, last_words
from faults.scenarios import (
    SCENARIOS,
    Reference,
    Scenario,
    contents,
    differences,
    reference,
)
from faults.shim import at_operations
from faults.totals import WRONG
from processes import environment_of, free_port

RANKS = "torchrun"
# Twenty seeds in turn; what takes long is rarer.
TURNS = (
    *("training", "exchange", "checkpoint", "evaluation", "store"),
    *("training", "exchange", "checkpoint", "corrupted copies", RANKS),
    *("training", "exchange", "checkpoint", "evaluation", "sweep"),
    *("predictions", "saving", "compare", "import", "features"),
)
RARE = {7: "reproduce with workers"}  # of sixty
SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
BY_SIGNAL = (0, 128 + signal.SIGINT, 128 + signal.SIGTERM)


def turn(seed: int) -> tuple[str, signal.Signals]:
    """Return what is killed for a seed, and by what."""
    name = RARE.get(seed % 60, TURNS[seed % len(TURNS)])
    return name, SIGNALS[(seed + seed // len(TURNS)) % len(SIGNALS)]


def outcome(seed: int, root: Path) -> tuple[str, str]:
    """Kill a piece of work once and begin it again; return what came of it."""
    name, number = turn(seed)
    folder = root / f"kill{seed}"
    folder.mkdir(parents=True)
    try:
        disturb = _killed_ranks if name == RANKS else _killed
        whole = reference("training" if name == RANKS else name, root)
        kind, wrong = disturb(
            name, number, folder, whole, random.Random(f"kills {seed}")
        )
        wrong = wrong or _again(name, folder, whole)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return f"{name}, {kind}", f"{WRONG}: {wrong}" if wrong else "same bits"


def _killed(
    name: str,
    number: signal.Signals,
    folder: Path,
    whole: Reference,
    draw: random.Random,
) -> tuple[str, str]:
    """Let a signal end some work; return which, and what is wrong with its end."""
    scenario, work = SCENARIOS[name], folder / "whole"
    work.mkdir()
    at_a_time = not scenario.in_this_process or draw.random() < 0.4
    last = 0 if at_a_time else draw.randint(1, whole.operations)
    log = folder / "log"
    child = forked(lambda: dying(scenario, work, number, last), log)
    if at_a_time:
        time.sleep(draw.uniform(0, whole.seconds))
        _signal(child, number, everybody=draw.random() < 0.5)
    code = ended(child)
    kind = number.name if code else "ended before"
    if code in (-number, 0) or (number != signal.SIGKILL and code in BY_SIGNAL):
        return kind, ""
    return kind, f"{number.name} ended in {code}: {last_words(log)}"


def dying(scenario: Scenario, folder: Path, number: int, last: int) -> None:
    """Work until a signal comes at the last of its file operations; 0 for none."""
    if not last:
        return scenario.work(folder)

    def act(operation_number: int, operation: str, path: Path) -> None:
        if operation_number == last:
            os.kill(os.getpid(), number)

    with at_operations(folder, act):
        return scenario.work(folder)


def _signal(child: int, number: int, *, everybody: bool) -> None:
    """Send a signal to a process or its whole group, if it is still there."""
    with suppress(ProcessLookupError):
        (os.killpg if everybody else os.kill)(child, number)


def _again(name: str, folder: Path, whole: Reference) -> str:
    """Do the work undisturbed; return what is wrong with its end."""
    work, log = folder / "whole", folder / "log of the second"
    scenario = SCENARIOS["training" if name == RANKS else name]
    code = ended(forked(lambda: scenario.work(work), log), seconds=600)
    if code == BLOCKED:
        return f"what was begun again did not end: {last_words(log)}"
    if code:
        return f"what was begun again ended in {code}: {last_words(log)}"
    return differences(contents(work), whole.contents)


def _killed_ranks(
    name: str,
    number: signal.Signals,
    folder: Path,
    whole: Reference,
    draw: random.Random,
) -> tuple[str, str]:
    """Kill one of two ranks that train together, or both."""
    work, port = folder / "whole", free_port()
    work.mkdir()
    children = [
        forked(lambda rank=rank: _rank(work, rank, port), folder / f"log{rank}")
        for rank in range(2)
    ]
    time.sleep(draw.uniform(0, 2 * whole.seconds))
    victims = children if draw.random() < 0.5 else [draw.choice(children)]
    for victim in victims:
        _signal(victim, number, everybody=False)
    codes = [ended(child) for child in children]
    kind = number.name if any(codes) else "ended before"
    return kind, "a rank did not end" if BLOCKED in codes else ""


def _rank(work: Path, rank: int, port: int) -> None:
    variables = {**environment_of(rank, 2, port), "TEPUI_RANK_TIMEOUT": "5"}
    with mock.patch.dict("os.environ", variables):
        SCENARIOS["training"].work(work)
