"""The same study by every executor, each with a worker that is killed once."""

import logging
import os
import re
import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from study_cases import EXAM, MEASURE, TRIAL, compared
from tepui.core.storage import read_tensors, same_bits
from tepui.data import Digits
from tepui.methods import SAM, DeepEnsemble, SharpBalance
from tepui.studies import Job, Store, carry_out, compare
from tepui.studies.executors import Processes, Ray, Slurm
from tepui.studies.job import THREADS_VARIABLE, JobError, children_on_threads
from tepui.studies.jobs import steps_left
from tepui.studies.plan_file import FOLDER
from tepui.studies.shared_prefixes import beginning as begun_as
from tepui.studies.specifications import Samples
from tepui.training.run_folder import RunFolder

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
    names = ("evaluations/*.json", "measure-*.json")
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
    assert len(results(store)) == 7  # clean and corrupted data of three, one measure
    return store


def killed_once(folder, executor, caplog):
    store, steps = store_in(folder, times=1), []
    left = sum(job.steps_left(store) for job in WORK)
    with caplog.at_level(logging.INFO, "tepui.studies"):
        carry_out(WORK, store, workers=2, executor=executor, advance=steps.append)
    assert not [*folder.glob("marks/*")], "nobody was killed"
    assert sum(steps) == left
    assert not [*(store.path / FOLDER).iterdir()]
    return store


def assert_same(store, expected):
    assert results(store) == results(expected)
    for job in WORK:
        assert same_bits(weights(store, job), weights(expected, job))


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("executor", "how"),
    [(Processes(), "ended with exit code -9"), (LOCAL_SLURM, "died"), (Ray(), "died")],
    ids=["processes", "slurm", "ray"],
)
def test_a_worker_that_dies_too_often_is_named(executor, how, tmp_path):
    library = {Slurm: "submitit", Ray: "ray"}.get(type(executor))
    if library:
        pytest.importorskip(library)
    store = store_in(tmp_path, times=9)
    message = rf"SAM \(\w+\): its worker {how}.*, 2 times \(retries: 1\)"
    with pytest.raises(JobError, match=message) as raised:
        carry_out(WORK[::2], store, workers=2, retries=1, executor=executor)
    left = [*(store.path / FOLDER).iterdir()]
    if isinstance(executor, Slurm):  # the folder of the log that the message names
        (folder,) = left
        log = Path(re.search(r"see (\S+)\)", str(raised.value))[1])
        assert log.is_file()
        assert log.is_relative_to(folder)
    else:
        assert not left


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "executor"), [("submitit", LOCAL_SLURM), ("ray", Ray())]
)
def test_failures_elsewhere_are_told_as_here(library, executor, tmp_path):
    pytest.importorskip(library)
    bad = replace(TRIAL, data=Samples(Digits, count=5000))
    store = store_in(tmp_path)
    given_up = carry_out([Job(bad)], store, executor=executor, tolerated=(ValueError,))
    assert "count must be at most" in given_up[bad.digest]
    with pytest.raises(JobError, match=rf"SAM \({bad.digest}\): ValueError: count"):
        carry_out([Job(bad)], store, executor=executor)


def test_what_cannot_be_sent_is_refused_before_anything_starts(tmp_path):
    store = Store(tmp_path, device="cpu", shared={"callbacks": [lambda record: None]})
    with pytest.raises(ValueError, match="jobs must hold only what can be sent"):
        carry_out(WORK, store, workers=2)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("executor", "library"), [(Ray(), "ray"), (LOCAL_SLURM, "submitit")]
)
def test_a_missing_library_is_named_with_its_extra(
    executor, library, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, library, None)
    extra = type(executor).__name__.lower()
    with pytest.raises(ImportError, match=rf"pip install 'tepui\[{extra}\]'"):
        carry_out(WORK, Store(tmp_path, device="cpu"), executor=executor)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "127.0.0.1:1",
            r"a Ray cluster that can be reached, got '127.0.0.1:1' \(.*ref",
        ),
        ("127.0.0.1:99999", "a Ray cluster that can be reached"),
        ("somewhere", "a Ray cluster that can be reached, got 'somewhere'"),
    ],
)
def test_a_ray_cluster_that_cannot_be_reached(address, message, tmp_path):
    pytest.importorskip("ray")
    with pytest.raises(ValueError, match=message):
        carry_out(WORK, Store(tmp_path, device="cpu"), executor=Ray(address=address))


@pytest.mark.parametrize("gpus", [-0.5, 1.5])
def test_ray_takes_a_share_of_a_gpu_or_whole_ones(gpus):
    with pytest.raises(ValueError, match=r"ray\.gpus must be a share of one GPU or"):
        Ray(gpus=gpus)


def test_ray_chooses_the_gpu(tmp_path):
    store = Store(tmp_path, device="cuda:1")
    with pytest.raises(ValueError, match="device must name no number for executor ray"):
        carry_out(WORK, store, executor=Ray())


def sbatch(folder, monkeypatch, text):
    """Put a stand-in for Slurm's command on the path."""
    folder.mkdir()
    command = folder / "sbatch"
    command.write_text(f"#!/bin/sh\n{text}\n")
    command.chmod(0o755)
    for other in ("srun", "sacct", "scancel"):
        (folder / other).symlink_to(command)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_without_slurm_the_error_says_what_is_missing(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JobError, match="Slurm was not found: "):
        carry_out(WORK, Store(tmp_path, device="cpu"), executor=Slurm())


def test_what_slurm_refuses_is_told(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    said = "sbatch: error: invalid partition specified: nowhere"
    sbatch(tmp_path / "bin", monkeypatch, f"echo '{said}' >&2; exit 1")
    store = Store(tmp_path / "store", device="cpu")
    with pytest.raises(JobError, match=f"Slurm refused the jobs: .*{said}"):
        carry_out(WORK, store, executor=Slurm(partition="nowhere"))


def test_slurm_gets_one_array_with_what_was_asked_for(tmp_path, monkeypatch):
    """The stand-in keeps the script that it is given and refuses it."""
    pytest.importorskip("submitit")
    kept = tmp_path / "script"
    text = f'for last; do :; done; cp "$last" {kept}; env > {kept}.env; exit 1'
    sbatch(tmp_path / "bin", monkeypatch, text)
    executor = Slurm(partition="short", minutes=90, gpus=2, memory=8)
    store = Store(tmp_path / "store", device="cpu")
    with pytest.raises(JobError):
        carry_out(WORK, store, executor=executor, workers=2)
    script = kept.read_text()
    for option in ("array=0-2%2", "partition=short", "time=90", "requeue", "mem=8GB"):
        assert f"#SBATCH --{option}" in script
    assert "gpus-per-node=2" in script
    assert "OMP_NUM_THREADS=1" in Path(f"{kept}.env").read_text().splitlines()


def test_a_process_whose_lease_was_taken_over_waits_for_the_other(tmp_path):
    """A lease that is lost in the first epoch is taken back once it is stale."""
    store = Store(tmp_path, device="cpu", stale_after=0.5)
    folder = tmp_path / f".{LONGER.digest}.lease"
    robbed = []

    def rob(record):
        if not robbed:
            robbed.append(record)
            (folder / "99").write_text('{"host": "elsewhere", "process": 1}\n')

    store.shared["callbacks"] = [rob]
    left, steps = WORK[0].steps_left(store), []
    carry_out(WORK[:1], store, advance=steps.append)
    assert robbed
    assert not WORK[0].steps_left(store)
    assert all(int(path.name) > 99 for path in folder.iterdir())
    assert sum(steps) == left


def test_progress_is_read_from_run_folders(tmp_path):
    """Of a job that another process trains, and until a beginning that it shares."""
    store = Store(tmp_path, device="cpu")
    job = WORK[0]
    whole = job.steps_left(store)
    assert steps_left(job, store) == whole == 2 * (8 + 2)  # two gradients an epoch

    def stop(record):
        if record.epoch == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        store.run(job.trial, on_epoch=stop)
    assert steps_left(job, store) == whole - 2 * 6
    beginning = replace(job, trial=replace(job.trial, seeds=(5, 6)), beginnings=(1, 3))
    begun = begun_as(beginning.trial, 3)
    folder = tmp_path / "beginnings" / f"{begun.digest}-3"
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("one\ntwo\nhalf a line")
    assert steps_left(beginning, store) == whole - 2 * 4


def test_what_another_driver_works_on_is_left_for_last(tmp_path, caplog):
    store = Store(tmp_path, device="cpu", stale_after=1)
    lease = store.lease(WORK[0].trial)
    lease.mkdir()
    (lease / "1").write_text('{"host": "elsewhere", "process": 1}\n')
    with caplog.at_level(logging.INFO, "tepui.studies"):
        carry_out(WORK, store)
    started = [text for text in caplog.messages if text.startswith("started")]
    second, third, first = (job.trial.digest for job in (*WORK[1:], WORK[0]))
    assert [text.split("(")[1][:-1] for text in started] == [second, third, first]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "executor"), [(None, Processes()), ("submitit", LOCAL_SLURM)]
)
def test_a_comparison_is_the_same_by_every_executor(library, executor, tmp_path):
    if library:
        pytest.importorskip(library)
    store = Store(tmp_path, device="cpu")
    train, test = store.dataset(TRIAL.data), store.dataset(EXAM.test)
    options = {"epochs": 2, "batch_size": 32, "device": "cpu", "progress": "none"}
    options |= {"sharpness": {"num_samples": 10, "num_steps": 2}, "members": 2}
    options["ensembles"] = 1
    methods = [SAM(rho=0.1), SharpBalance(rho=0.1, before="sam")]
    arguments = methods, TRIAL.model, train, test
    here = compared(*arguments, out=tmp_path / "here", **options)
    how = {"executor": executor, "at_once": 2}
    elsewhere = compared(*arguments, out=tmp_path / "elsewhere", **how, **options)
    assert elsewhere.settings == here.settings
    for mine, other in zip(here.methods, elsewhere.methods, strict=True):
        (one,), (two,) = mine.ensembles, other.ensembles
        assert timeless(one) == timeless(two)


@pytest.mark.slow
def test_workers_of_a_comparison_have_the_threads_it_is_given(tmp_path):
    store = Store(tmp_path, device="cpu")
    arguments = TRIAL.model, store.dataset(TRIAL.data), store.dataset(EXAM.test)
    options = {"epochs": 1, "members": 1, "device": "cpu", "progress": "none"}
    options["ensembles"] = 1
    methods = [DeepEnsemble(), SAM(rho=0.1)]
    how = {"at_once": 2, "threads": 2, "out": tmp_path / "both"}
    found = compare(methods, *arguments, **how, **options)
    runs = [
        RunFolder(tmp_path / "both" / name / "0") for name in ("DeepEnsemble", "SAM")
    ]
    assert [run.threads() for run in runs] == [2, 2]
    assert found.settings["threads"] == 2


def test_variables_that_set_threads_are_put_back(monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    monkeypatch.delenv(THREADS_VARIABLE, raising=False)
    with children_on_threads(3):
        inside = [os.environ[THREADS_VARIABLE], os.environ["OMP_WAIT_POLICY"]]
    assert inside == ["3", "PASSIVE"]
    assert THREADS_VARIABLE not in os.environ
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"


def timeless(trained):
    """What was trained, without what a clock said."""
    cost = {**trained.cost, "seconds": None}
    return replace(trained, seconds=0, cost=cost)


def test_no_line_break_reaches_the_shell_of_a_cluster(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    for partition in ("short\ntouch here", "short; touch here", "$(touch here)", ""):
        with pytest.raises(ValueError, match=r"slurm\.partition must hold only"):
            Slurm(partition=partition)
    kept = tmp_path / "script"
    sbatch(tmp_path / "bin", monkeypatch, f"touch {kept}")
    store = Store(tmp_path / "store\ntouch here\n", device="cpu")
    with pytest.raises(ValueError, match="store must have a path without control"):
        carry_out(WORK, store, executor=Slurm())
    assert not kept.exists()
