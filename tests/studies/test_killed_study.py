"""A study whose workers and drivers are killed at random trains everything once."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Timer

import pytest

from study_cases import EXAM, TRIAL
from tepui.core.storage import read_tensors, same_bits
from tepui.methods import DeepEnsemble
from tepui.studies import Job, Store, carry_out, verify
from tepui.training.run_folder import RunFolder

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:member . may not")]
KILLS, EPOCHS = 50, 24
LONG = TRIAL.trained_with(epochs=EPOCHS)
WORK = [
    Job(replace(LONG.trained_with(method=method), seeds=seeds), (EXAM,))
    for method in (DeepEnsemble(), LONG.training.method)
    for seeds in ((3, 4), (5, 6), (7, 8))
]
DRIVER = """
import sys
from pathlib import Path
from studies.test_killed_study import KilledAtRandom, WORK
from tepui.studies import Store, carry_out

folder = Path(sys.argv[1])
shared = {"callbacks": [KilledAtRandom(folder)]}
store = Store(folder / "store", device="cpu", shared=shared, stale_after=5.0)
carry_out(WORK, store, workers=3, retries=1000)
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
        mark = next(iter(self.folder.glob("mark*")), None)
        if mark is not None:
            mark.unlink(missing_ok=True)
            chance = random.Random(time.time_ns())
            victim = os.getppid() if chance.random() < 0.2 else os.getpid()
            os.environ["DOOMED"] = str(os.getpid())
            Timer(chance.uniform(0, 0.03), os.kill, (victim, signal.SIGKILL)).start()


def test_killed_fifty_times_a_study_ends_in_the_same_records(tmp_path):
    undisturbed = Store(tmp_path / "whole", device="cpu")
    carry_out(WORK, undisturbed)
    for number in range(KILLS):
        (tmp_path / f"mark{number}").touch()
    ends = [-signal.SIGKILL]
    while ends[-1]:
        driver = subprocess.run(
            [sys.executable, "-c", DRIVER, tmp_path],
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            check=False,
        )
        assert driver.returncode in (0, -signal.SIGKILL), driver.stderr
        ends.append(driver.returncode)
    assert not [*tmp_path.glob("mark*")], "not all were killed"
    assert len(ends) > 2  # drivers were killed, too
    store = Store(tmp_path / "store", device="cpu")
    assert len([*store.path.glob("*/ensemble.safetensors")]) == len(WORK)
    assert not [each for each in verify(store.path) if each.damage]
    lines = (tmp_path / "epochs").read_text().splitlines()
    assert len(lines) <= len(WORK) * EPOCHS + KILLS + 3 * len(ends)
    for job in WORK:
        folders = [each.folder(job.trial) for each in (store, undisturbed)]
        kept = [
            read_tensors(folder / "ensemble.safetensors", "ensemble")[0]
            for folder in folders
        ]
        assert same_bits(*kept)
        scores = [each.evaluation(job.trial, EXAM) for each in (store, undisturbed)]
        assert scores[0] == scores[1]
        assert RunFolder(folders[0]).epochs_done == EPOCHS
