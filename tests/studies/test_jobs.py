import logging
import multiprocessing
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
import torch

from study_cases import EXAM, MEASURE, TRIAL
from tepui.core.processes import mark
from tepui.data import Digits, RandomCrop
from tepui.losses import CrossEntropy
from tepui.methods import DeepEnsemble
from tepui.models import ConvNet
from tepui.studies.executors import Ray
from tepui.studies.job import THREADS_VARIABLE, Job, JobError
from tepui.studies.jobs import carry_out, merged
from tepui.studies.plan_file import FOLDER, planned, remove_abandoned
from tepui.studies.specifications import Samples
from tepui.studies.store import Store

OTHER = TRIAL.trained_with(method=DeepEnsemble())
WORK = [Job(TRIAL, (EXAM,), (MEASURE,)), Job(OTHER, (EXAM,))]
CONVOLUTIONS = [
    Job(replace(TRIAL, model=partial(ConvNet, width=8), seeds=seeds), (EXAM,))
    for seeds in ((3, 4), (5, 6))
]
ALL = [*WORK, *CONVOLUTIONS]


def test_plans_of_dead_drivers_are_removed_though_nothing_is_left_to_do(tmp_path):
    """Workers of this machine end with their driver; jobs in a queue may yet start."""
    store, plans = Store(tmp_path, device="cpu"), tmp_path / FOLDER
    with planned([Job(TRIAL)], store, outlives_driver=False) as (task,):
        assert task.plan.parent == plans
        remove_abandoned(store)
        assert task.plan.exists()
        dead = mark().rpartition("-")[0] + "-0"  # started at another time
        copied = plans / task.plan.name.replace(mark(), dead)
        copied.write_bytes(task.plan.read_bytes())
        queued = plans / f"{dead}-0.pickle"
        queued.touch()
    carry_out([], store)
    assert [*plans.iterdir()] == [queued]


def test_views_that_a_loss_compares_are_priced(tmp_path):
    """Three forward passes: three times the steps."""
    store, augment = Store(tmp_path, device="cpu"), (RandomCrop(1),)
    plain = CONVOLUTIONS[0].trial.trained_with(augment=augment)
    compared = plain.trained_with(loss=CrossEntropy(consistency=12))
    steps = [Job(trial).steps_left(store) for trial in (plain, compared)]
    assert steps[1] == 3 * steps[0]


def files(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.name == "clean.json" or path.name.startswith("measure-")
    }


@dataclass(frozen=True)
class Outcome:
    """What came of all work, what was told of it, and how processes were started."""

    store: Store
    steps: list[int]
    threads: list[str]
    threads_after: str | None

    @property
    def files(self):
        return files(self.store.path)


def carried_out(path, workers):
    store, steps, threads = Store(path, device="cpu"), [], []
    process = multiprocessing.get_context("spawn").Process
    start = process.start

    def recording(process):
        threads.append(os.environ[THREADS_VARIABLE])
        start(process)

    # The first convolution of a process reads the variable, once and for all.
    torch.nn.functional.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(THREADS_VARIABLE, "3")
        patch.setattr(process, "start", recording)
        carry_out(ALL, store, workers=workers, advance=steps.append)
        after = os.environ.get(THREADS_VARIABLE)
    return Outcome(store, steps, threads, after)


@pytest.fixture(scope="module")
def in_turn(tmp_path_factory):
    return carried_out(tmp_path_factory.mktemp("in_turn"), workers=1)


@pytest.fixture(scope="module")
def side_by_side(tmp_path_factory):
    """In processes, which take long to start: once for all that is to be seen."""
    return carried_out(tmp_path_factory.mktemp("side_by_side"), workers=2)


def test_merged_work_has_each_trial_and_each_question_once():
    twice = [
        Job(TRIAL, (EXAM,)),
        Job(OTHER),
        Job(replace(TRIAL), (replace(EXAM),), (MEASURE,)),
    ]
    first, second = merged(twice)
    assert first == Job(TRIAL, (EXAM,), (MEASURE,))
    assert second == Job(OTHER)


@pytest.mark.slow
def test_progress_adds_up_to_what_was_left(in_turn, side_by_side, tmp_path):
    fresh = Store(tmp_path, device="cpu")
    steps = sum(each.steps_left(fresh) for each in ALL)
    # Of two members: epochs, those of SAM as two each, and questions.
    assert steps == (3 * 4 + 2) * 2 + 5 * 2
    for done in (in_turn, side_by_side):
        assert sum(done.steps) == steps
        assert all(each.steps_left(done.store) == 0 for each in ALL)


def test_progress_counts_epochs_of_an_earlier_start(tmp_path):
    store = Store(tmp_path, device="cpu")

    def stop(record):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        store.run(TRIAL, on_epoch=stop)
    steps = []
    left = Job(TRIAL).steps_left(store)
    carry_out([Job(TRIAL)], store, advance=steps.append)
    assert sum(steps) == left


IN_TURN = """
import sys
from studies.test_jobs import ALL
from tepui.studies import Store, carry_out

carry_out(ALL, Store(sys.argv[1], device="cpu"))
"""


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_workers(side_by_side, tmp_path):
    """In a new process: bits of convolutions hang on what a process did before."""
    tests = Path(__file__).parents[1]
    subprocess.run([sys.executable, "-c", IN_TURN, tmp_path], cwd=tests, check=True)
    assert len(side_by_side.files) == 5
    assert side_by_side.files == files(tmp_path)


def test_results_do_not_depend_on_the_number_of_threads(in_turn, tmp_path):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        carry_out(ALL, Store(tmp_path, device="cpu"))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert files(tmp_path) == in_turn.files


@pytest.mark.slow
def test_a_failing_worker_says_which_trial_and_why_and_the_others_finish(tmp_path):
    bad = replace(TRIAL, data=Samples(Digits, count=5000))
    store = Store(tmp_path, device="cpu")
    with pytest.raises(JobError, match=rf"SAM \({bad.digest}\): ValueError: count"):
        carry_out([Job(bad), Job(OTHER)], store, workers=2)
    assert store.is_trained(OTHER)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_tolerated_ends_only_its_own_work(workers, tmp_path):
    bad = replace(TRIAL, data=Samples(Digits, count=5000))
    store = Store(tmp_path, device="cpu")
    work, steps = [Job(bad, (EXAM,)), Job(OTHER)], []
    left = sum(each.steps_left(store) for each in work)
    options = {"workers": workers, "advance": steps.append}
    given_up = carry_out(work, store, tolerated=(ValueError,), **options)
    assert [*given_up] == [bad.digest]
    assert "count must be at most" in given_up[bad.digest]
    assert store.is_trained(OTHER)
    assert sum(steps) == left
    with pytest.raises(ValueError, match="count must be at most"):
        carry_out([Job(bad)], store, tolerated=(KeyError,))


def test_workers_are_started_with_one_thread(in_turn, side_by_side):
    assert (in_turn.threads, side_by_side.threads) == ([], ["1", "1"])
    assert (in_turn.threads_after, side_by_side.threads_after) == ("3", "3")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_failure_of_the_listener_ends_the_work(workers, monkeypatch, tmp_path):
    def fail(steps):
        raise KeyboardInterrupt

    monkeypatch.delenv(THREADS_VARIABLE, raising=False)
    before = {*multiprocessing.active_children()}
    with pytest.raises(KeyboardInterrupt):
        carry_out(WORK, Store(tmp_path, device="cpu"), workers=workers, advance=fail)
    assert {*multiprocessing.active_children()} <= before
    assert THREADS_VARIABLE not in os.environ


def test_workers_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match="workers must be positive, got 0"):
        carry_out([], Store(tmp_path, device="cpu"), workers=0)


def test_what_happens_is_logged_and_nothing_is_said_by_default(tmp_path, caplog, capfd):
    store, job = Store(tmp_path, device="cpu"), Job(TRIAL.trained_with(epochs=1))
    carry_out([job], store)
    with caplog.at_level(logging.INFO, "tepui.studies"):
        other = Job(replace(job.trial, seeds=(8, 9)))
        carry_out([job, other], store)
    assert [record.getMessage() for record in caplog.records] == [
        f"stored already: SAM ({job.trial.digest})",
        f"started: SAM ({other.trial.digest})",
        f"finished: SAM ({other.trial.digest})",
    ]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("jobs", "options"),
    [
        ([Job(TRIAL), Job(OTHER)], {"workers": 1}),
        ([Job(TRIAL), Job(OTHER)], {"workers": 2}),
        ([Job(TRIAL)], {"executor": Ray()}),
    ],
    ids=["in turn", "side by side", "elsewhere"],
)
def test_ranks_do_not_divide_a_study(jobs, options, tmp_path, monkeypatch):
    """They train the members of one ensemble together."""
    monkeypatch.setattr("tepui.studies.jobs.exchange_here", object)
    store = Store(tmp_path, device="cpu")
    with pytest.raises(ValueError, match="jobs must be one, in this process, under"):
        carry_out(jobs, store, **options)
    assert not [*tmp_path.iterdir()]
