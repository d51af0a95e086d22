"""The same study by every executor, each with a worker that is killed once."""

import logging
import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from study_cases import EXAM, MEASURE, TRIAL
from tepui.core.storage import read_tensors, same_bits
from tepui.data import Digits
from tepui.methods import DeepEnsemble
from tepui.studies import Job, Store, carry_out
from tepui.studies.executors import Processes, Ray, Slurm
from tepui.studies.job import JobError
from tepui.studies.plan_file import FOLDER
from tepui.studies.specifications import Samples

LONGER = TRIAL.trained_with(epochs=4)
WORK = [
    Job(LONGER, (EXAM,), (MEASURE,)),
    Job(LONGER.trained_with(method=DeepEnsemble()), (EXAM,)),
    Job(replace(LONGER, seeds=(7, 8)), (EXAM,)),
]
LOCAL_SLURM = Slurm(cluster="local")


@dataclass(frozen=True)
class KillWhileMarked:
    """Kills the process that trains, in the third epoch, as often as it is marked."""

    folder: Path

    def __call__(self, record):
        marks = sorted(self.folder.glob("mark*"))
        if record.epoch == 2 and marks:
            marks[0].unlink()
            os.kill(os.getpid(), signal.SIGKILL)


def marked(folder, times):
    folder.mkdir()
    for number in range(times):
        (folder / f"mark{number}").touch()
    return KillWhileMarked(folder)


def store_in(folder, times=0):
    """A store whose workers are killed that many times."""
    shared = {"callbacks": (marked(folder / "marks", times),)}
    return Store(folder / "store", device="cpu", shared=shared)


def results(store):
    names = ("evaluation.json", "measure-*.json")
    return {
        path.relative_to(store.path): path.read_bytes()
        for name in names
        for path in store.path.rglob(name)
    }


def weights(store, job):
    return read_tensors(store.folder(job.trial) / "ensemble.safetensors", "ensemble")[0]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    store = store_in(tmp_path_factory.mktemp("undisturbed"))
    torch.nn.functional.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3))
    carry_out(WORK, store)
    assert len(results(store)) == 4
    return store


def killed_once(folder, executor, caplog):
    store, steps = store_in(folder, times=1), []
    left = sum(job.steps_left(store) for job in WORK)
    with caplog.at_level(logging.INFO, "tepui.studies"):
        carry_out(WORK, store, workers=2, executor=executor, advance=steps.append)
    assert not [*folder.glob("marks/*")], "nobody was killed"
    assert sum(steps) == left
    assert not [*(store.path / FOLDER).glob("*.pickle")]
    return store


def assert_same(store, expected):
    assert results(store) == results(expected)
    for job in WORK:
        assert same_bits(weights(store, job), weights(expected, job))


def test_processes(undisturbed, tmp_path, caplog):
    store = killed_once(tmp_path, Processes(), caplog)
    assert_same(store, undisturbed)
    (line,) = [text for text in caplog.messages if text.startswith("retried")]
    assert "worker ended with exit code -9" in line


@pytest.mark.slow
def test_slurm(undisturbed, tmp_path, caplog):
    pytest.importorskip("submitit")
    store = killed_once(tmp_path, LOCAL_SLURM, caplog)
    assert_same(store, undisturbed)
    assert any(text.startswith("retried, died (state") for text in caplog.messages)


@pytest.mark.slow
def test_ray(undisturbed, tmp_path, caplog):
    pytest.importorskip("ray")
    assert_same(killed_once(tmp_path, Ray(), caplog), undisturbed)


@pytest.mark.parametrize(
    ("executor", "how"),
    [
        (Processes(), "ended with exit code -9"),
        pytest.param(LOCAL_SLURM, "died", marks=pytest.mark.slow),
        pytest.param(Ray(), "died", marks=pytest.mark.slow),
    ],
    ids=["processes", "slurm", "ray"],
)
def test_a_worker_that_dies_too_often_is_named(executor, how, tmp_path):
    library = {Slurm: "submitit", Ray: "ray"}.get(type(executor))
    if library:
        pytest.importorskip(library)
    store = store_in(tmp_path, times=9)
    message = rf"SAM \(\w+\): its worker {how}.*, 2 times \(retries: 1\)"
    with pytest.raises(JobError, match=message):
        carry_out(WORK[::2], store, workers=2, retries=1, executor=executor)
    assert not [*(store.path / FOLDER).glob("*.pickle")]
