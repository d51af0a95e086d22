"""Processes that run a benchmark's file as ranks, on one thread each."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def launched(file: str, size: int, *words: str) -> str:
    """Start a file once per rank; return what rank 0 printed."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
    processes = []
    for rank in range(size):
        values = (str(rank), str(rank), str(size), "127.0.0.1", port)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment |= dict(zip(VARIABLES, values, strict=True))
        command = [sys.executable, file, *words]
        processes.append(
            subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, text=True
            )
        )
    said, *_ = [process.communicate()[0] for process in processes]
    return said.strip()


def in_turn(file: str, words: tuple[str, ...], repeats: int) -> tuple[float, ...]:
    """Return seconds alone and on two ranks, and the median of their ratios.

    One after the other and again, since a busy machine changes its mind.
    """
    pairs = [
        [float(launched(file, size, *words)) for size in (1, 2)] for _ in range(repeats)
    ]
    alone, together = (median(column) for column in zip(*pairs, strict=True))
    return alone, together, median(two / one for one, two in pairs)


def milliseconds(call: Callable[[], object], repeats: int = 30) -> float:
    """Return the median time of a call."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        call()
        times.append(1000 * (time.perf_counter() - begun))
    return median(times)
