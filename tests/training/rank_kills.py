"""Ranks that are killed and resumed, again and again; forked, as starting takes long.

Run as ``python -c "from training.rank_kills import main; main(FOLDER, KILLS)"``.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from processes import environment_of, free_port
from tepui.training.ranks import Ranks
from tepui.training.run_folder import RunFolder
from training.rank_cases import SlowLoss, run_case

CASES = ("SharpBalance", "SED", "deep ensemble", "A2D, sequential")
SIZES = (2, 3, 5)
MEETINGS = 14  # until a kill, at most: about an epoch's, with or without an exchange


def train(case, out):
    return run_case(case, epochs=6, loss=SlowLoss(), out=out, resume=True)


def dying_at(meeting, after):
    """Let this process die when ranks meet for the so-manyth time."""
    meet, count = Ranks.everywhere, 0

    def everywhere(self, value):
        nonlocal count
        count += 1
        if count == meeting and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        values = meet(self, value)
        if count == meeting:
            os.kill(os.getpid(), signal.SIGKILL)
        return values

    Ranks.everywhere = everywhere


def forked(case, out, rank, size, port, before=lambda: None):
    """Return the process of a rank."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.environ.update(environment_of(rank, size, port))
        before()
        sys.stderr = (out.parent / f"{out.name}-{rank}.log").open("a")
        train(case, out)
        code = 0
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
    finally:
        os._exit(code)


def ends_of(children):
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def kill_at_a_meeting(case, out, size, moments):
    """Let one rank die as it comes to the others, or as it leaves them."""
    port, victim = free_port(), moments.randrange(size)
    meeting, after = moments.randrange(1, MEETINGS), moments.random() < 0.5
    return ends_of(
        [
            forked(case, out, rank, size, port, lambda: dying_at(meeting, after))
            if rank == victim
            else forked(case, out, rank, size, port)
            for rank in range(size)
        ]
    )


def kill_at_a_time(case, out, size, moments, seconds):
    """Kill one rank or all of them at any time."""
    port = free_port()
    ranks = [forked(case, out, rank, size, port) for rank in range(size)]
    time.sleep(moments.uniform(0.2, seconds))
    victims = ranks if moments.random() < 0.5 else [moments.choice(ranks)]
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    return ends_of(ranks)


def main(folder, kills):
    """Kill runs until there were enough kills; each then ends in another way."""
    torch.set_num_threads(1)
    os.environ["TEPUI_RANK_TIMEOUT"] = "5"
    folder, moments, done, runs = Path(folder), random.Random(0), 0, []
    begun = time.perf_counter()
    train("deep ensemble", folder / "first")
    length = time.perf_counter() - begun
    while done < kills:
        case = CASES[len(runs) % len(CASES)]
        out = folder / f"run{len(runs)}"
        while done < kills and not RunFolder(out).finished:
            size = moments.choice(SIZES)
            if moments.random() < 0.5:
                ends = kill_at_a_meeting(case, out, size, moments)
            else:
                ends = kill_at_a_time(case, out, size, moments, length)
            done += -signal.SIGKILL in ends
        size, port = moments.choice((1, *SIZES)), free_port()
        ends = ends_of([forked(case, out, rank, size, port) for rank in range(size)])
        runs.append({"case": case, "out": str(out), "ends": ends})
    sys.stdout.write(json.dumps({"kills": done, "runs": runs}))
