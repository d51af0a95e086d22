"""Many runs in one process: memory, open files and threads must stay as they are.

PYTHONPATH=src:tests python -m faults.soak 500 soak.csv

A cycle trains an ensemble, is interrupted by a signal, resumes, evaluates, and writes a
report. The file has a line for each; one that is there is begun anew.
"""

import csv
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"

import torch

import tepui
from damage_cases import DATA, ensemble
from tepui.methods import SharpBalance
from tepui.report import write_report
from tepui.report.loading import load_reports


class Cycle(NamedTuple):
    """What a process holds after a cycle."""

    cycle: int
    resident_mib: float
    open_files: int
    threads: int
    seconds: float


def cycles(number: int) -> Iterator[Cycle]:
    """Carry out cycles; yield what the process holds after each of them."""
    for index in range(number):
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            once(Path(folder) / "run")
        yield held(index + 1, time.perf_counter() - began)


def once(folder: Path) -> None:
    """Train, interrupt, resume, evaluate and report."""
    interrupted = False

    def interrupt(_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    try:
        _train(folder, [interrupt])
    except KeyboardInterrupt:
        interrupted = True
    assert interrupted
    run = _train(folder, [])
    tepui.evaluate(run.ensemble, DATA, out=folder, overwrite=True)
    write_report(load_reports([folder]), folder)


def _train(folder: Path, callbacks: list[Any]) -> tepui.Run:
    return tepui.fit(
        ensemble(),
        DATA,
        method=SharpBalance(switch_at=1),
        epochs=3,
        batch_size=4,
        device="cpu",
        progress="none",
        callbacks=callbacks,
        out=folder,
        resume=True,
    )


def held(cycle: int, seconds: float) -> Cycle:
    """Return what this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    mebibytes = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    files, threads = (
        len([*Path(f"/proc/self/{name}").iterdir()]) for name in ("fd", "task")
    )
    return Cycle(cycle, round(mebibytes, 2), files, threads, round(seconds, 2))


def main(words: list[str]) -> None:
    """Write the curve of so many cycles."""
    number, file = int(words[0]), Path(words[1])
    torch.set_num_threads(1)
    with file.open("w", newline="") as stream, suppress(KeyboardInterrupt):
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(Cycle._fields)
        for each in cycles(number):
            writer.writerow(each)
            stream.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
