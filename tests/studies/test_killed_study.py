"""A study whose workers and drivers are killed at random trains everything once.

Its drivers and their workers are forked from one process that has imported torch, so
that a death costs no import.
"""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import parent_process
from pathlib import Path
from threading import Timer

import pytest

from study_cases import TRIAL
from tepui.core.storage import read_tensors, same_bits
from tepui.methods import SharpBalance
from tepui.studies import Store, search, sweep, verify
from tepui.studies.sweep import outcome_of, records_of
from tepui.training.run_folder import RunFolder

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("TEPUI_KILLS", "50"))
EPOCHS, SHARED = 16, 8  # of each ensemble, and those that all radii have in common
METHOD = SharpBalance(switch_at=SHARED)
LONG = TRIAL.trained_with(method=METHOD, epochs=EPOCHS)
TRIALS = [replace(LONG, seeds=seeds) for seeds in ((3, 4), (5, 6), (7, 8))]
RADII = [0.05, 0.1, 0.2]
ENSEMBLES = len(TRIALS) * len(RADII)
PLANNED = search(TRIALS, {"rho": RADII})
TO_DO = len(TRIALS) * SHARED + ENSEMBLES * (EPOCHS - SHARED)  # epochs
DRIVERS = """
import multiprocessing, os, sys
from pathlib import Path
import torch
from studies.test_killed_study import KilledAtRandom, PLANNED
from tepui.studies import Store, carry_out, sweep
from tepui.studies.executors import processes

folder = Path(sys.argv[1])
torch.set_num_threads(1)
carry_out(PLANNED.work[:1], Store(folder / "warm", device="cpu"))  # imports the rest
processes.multiprocessing = multiprocessing.get_context("fork")
processes.multiprocessing.get_context = lambda _: processes.multiprocessing
shared = {"callbacks": [KilledAtRandom(folder)]}
store = Store(folder / "store", device="cpu", shared=shared, stale_after=5.0)
while True:
    driver = os.fork()
    if not driver:
        sweep(PLANNED, store, workers=3, retries=1000)
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(driver, 0)[1])
    print("driver ended with", ended, flush=True)
    if ended != -9:
        sys.exit(ended)
"""


@dataclass(frozen=True)
class KilledAtRandom:
    """Kills the worker or its driver, a moment after an epoch, once for each mark."""

    folder: Path

    def __call__(self, record):
        with (self.folder / "epochs").open("a") as file:
            file.write(f"{record.epoch}\n")
        if os.environ.get("DOOMED") == str(os.getpid()):
            return
        chance = random.Random(time.time_ns())
        for mark in sorted(self.folder.glob("mark*"))[:1]:
            try:
                mark.unlink()
            except FileNotFoundError:  # another worker took it
                return
            driver = parent_process()
            of_driver = chance.random() < 0.2 and driver.is_alive()
            victim = driver.pid if of_driver else os.getpid()
            os.environ["DOOMED"] = str(os.getpid())
            Timer(chance.uniform(0, 0.03), os.kill, (victim, signal.SIGKILL)).start()


def carried_out(folder):
    """Carry out the study under kills; return how many of its drivers died."""
    for number in range(KILLS):
        (folder / f"mark{number}").touch()
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVERS, folder],
            cwd=Path(__file__).parents[1],
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            ended = process.wait()
        finally:
            with suppress(ProcessLookupError):  # workers that wait for a driver
                os.killpg(process.pid, signal.SIGKILL)
    text = (folder / "said").read_text()
    assert ended == 0, text
    return text.count("ended with -9")


def test_killed_at_random_a_study_trains_everything_once(tmp_path, capsys):
    undisturbed = Store(tmp_path / "whole", device="cpu")
    expected = sweep(PLANNED, undisturbed)
    drivers = carried_out(tmp_path)
    assert not [*tmp_path.glob("mark*")], "not all were killed"
    store = Store(tmp_path / "store", device="cpu")
    assert len([*store.path.glob("*/ensemble.safetensors")]) == ENSEMBLES
    assert not [each for each in verify(store.path) if each.damage]
    epochs = len((tmp_path / "epochs").read_text().splitlines())
    # A death costs the epoch that it met, a driver's those of its workers.
    assert TO_DO <= epochs <= TO_DO + KILLS + 3 * drivers
    found = outcome_of(PLANNED, store)
    assert [*records_of(PLANNED, found)] == [*records_of(PLANNED, expected)]
    for job in PLANNED.work:
        folders = [each.folder(job.trial) for each in (store, undisturbed)]
        assert [RunFolder(folder).epochs_done for folder in folders] == [EPOCHS] * 2
        files = [folder / "ensemble.safetensors" for folder in folders]
        assert same_bits(*(read_tensors(file, "ensemble")[0] for file in files))
    with capsys.disabled():
        said = f"{KILLS} kills, {drivers} of drivers; {epochs} epochs for {TO_DO}"
        sys.stdout.write(f"\n{said}\n")
