import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from tepui.core import lease as module
from tepui.core.lease import LeaseHeldError, LeaseLostError, leased
from tepui.core.processes import host


def numbers(folder):
    return sorted(path.name for path in folder.iterdir())


def foreign(folder, number=1):
    """Leave a lease that a process of another host holds."""
    folder.mkdir(exist_ok=True)
    holder = {"host": "elsewhere", "process": os.getpid(), "started": "0"}
    (folder / str(number)).write_text(json.dumps(holder) + "\n")


def test_a_lease_is_released_and_taken_again(tmp_path):
    folder = tmp_path / "lease"
    for number in ("1", "2", "3"):
        with leased(folder) as lease:
            lease.check()
            assert numbers(folder) == [number]
            assert json.loads((folder / number).read_text())["process"] == os.getpid()


def test_one_at_a_time_and_everybody_once(tmp_path):
    """Counting without a lock loses counts, and does so here without the lease."""
    counter, rounds = tmp_path / "count", 5
    counter.write_text("0")

    def count():
        for _ in range(rounds):
            with leased(tmp_path / "lease"):
                value = int(counter.read_text())
                time.sleep(0.002)
                counter.write_text(str(value + 1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.read_text() == str(4 * rounds)


@pytest.mark.parametrize("wait", [True, False])
def test_a_stale_lease_of_another_host_is_taken_over_after_its_time(tmp_path, wait):
    foreign(tmp_path)
    start = time.monotonic()
    with leased(tmp_path, stale_after=0.5, wait=wait):
        assert numbers(tmp_path) == ["2"]
    assert time.monotonic() - start >= 0.5


def test_a_lease_that_is_renewed_is_not_taken_over(tmp_path):
    ended, let_go = threading.Event(), []

    def hold():
        with leased(tmp_path, stale_after=0.5):
            ended.wait()
            let_go.append(True)

    holder = threading.Thread(target=hold)
    holder.start()
    while not tmp_path.joinpath("1").exists():
        time.sleep(0.01)
    threading.Timer(1.5, ended.set).start()
    with leased(tmp_path, stale_after=0.5):
        assert let_go
    holder.join()


def test_who_was_away_for_too_long_learns_who_took_over(tmp_path):
    with leased(tmp_path) as lease:
        foreign(tmp_path, 2)
        with pytest.raises(LeaseLostError, match=r"taken over by .*elsewhere"):
            lease.check()


def test_of_two_that_take_over_one_succeeds(tmp_path):
    foreign(tmp_path, 1)
    first, second = module._create(tmp_path, 2), module._create(tmp_path, 2)
    assert (first is None, second is None) == (False, True)
    first[1].close()


def test_who_comes_late_does_not_succeed_with_a_number_that_is_history(tmp_path):
    foreign(tmp_path, 7)
    assert module._create(tmp_path, 6) is None
    assert numbers(tmp_path) == ["7"]


HOLD = """
import sys, time
from pathlib import Path
from tepui.core.lease import leased
with leased(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(1000)
"""


def test_the_lease_of_a_killed_process_is_free_at_once_even_before_it_is_reaped(
    tmp_path,
):
    command = [sys.executable, "-c", HOLD, tmp_path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        process.send_signal(signal.SIGKILL)
        start = time.monotonic()
        with leased(tmp_path, stale_after=1000):
            assert numbers(tmp_path) == ["2"]
        assert time.monotonic() - start < 500


def test_another_process_with_the_number_of_the_holder_does_not_count(tmp_path):
    holder = {"host": host(), "process": os.getpid(), "started": "long ago"}
    (tmp_path / "1").write_text(json.dumps(holder) + "\n")
    with leased(tmp_path, stale_after=1000):
        assert numbers(tmp_path) == ["2"]


def test_who_does_not_wait_is_told_who_holds_it(tmp_path):
    folder = tmp_path / "run" / ".lease"
    with (
        leased(folder),
        pytest.raises(LeaseHeldError, match=rf"run is in use by process {os.getpid()}"),
        leased(folder, wait=False),
    ):
        pass
    with leased(folder, wait=False):
        assert numbers(folder) == ["2"]


def test_a_process_of_this_host_that_lives_is_not_robbed_without_renewals(
    tmp_path, monkeypatch
):
    with leased(tmp_path, stale_after=1000):
        looked_once = SimpleNamespace(monotonic=time.monotonic)  # nobody sleeps
        monkeypatch.setattr(module, "time", looked_once)
        with pytest.raises(LeaseHeldError), leased(tmp_path, 0.01, wait=False):
            pass
        assert module._is_over((tmp_path / "1").read_text()) is False


def test_a_renewal_from_another_host_is_a_sign_of_life(tmp_path):
    foreign(tmp_path)
    told = threading.Event()

    def renew():
        while not told.wait(0.2):
            with (tmp_path / "1").open("a") as file:
                file.write(".")

    renewing = threading.Thread(target=renew)
    renewing.start()
    try:
        with (
            pytest.raises(LeaseHeldError, match=r"by process .* on elsewhere"),
            leased(tmp_path, stale_after=1000, wait=False),
        ):
            pass
    finally:
        told.set()
        renewing.join()


@pytest.mark.parametrize("text", ["", "\n", "[]\n", '{"host": 1}\n', "\xff{\n.."])
def test_a_damaged_lease_is_stale_after_its_time(text, tmp_path):
    (tmp_path / "1").write_text(text)
    with leased(tmp_path, stale_after=0.05):
        assert numbers(tmp_path) == ["2"]


def test_a_folder_that_is_gone_is_not_taken_for_a_lost_lease(tmp_path):
    folder = tmp_path / "run" / ".lease"
    with leased(folder) as lease:
        shutil.rmtree(tmp_path / "run")
        with pytest.raises(FileNotFoundError, match="run was removed or emptied while"):
            lease.check()


def test_a_lease_that_a_full_disk_left_unwritten_holds_up_nobody(tmp_path):
    folder = tmp_path / ".lease"
    with leased(folder):
        pass
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(OSError, match=rf"^{folder}/2 could not be written: file"):
            leased(folder).__enter__()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))
    assert numbers(folder) == ["1"]
    with leased(folder, stale_after=1000, wait=False):
        assert numbers(folder) == ["2"]


@pytest.mark.parametrize("process", [-1, 0])
def test_a_number_that_stands_for_several_processes_holds_nothing(process, tmp_path):
    holder = {"host": host(), "process": process, "started": "unknown"}
    (tmp_path / "1").write_text(json.dumps(holder) + "\n")
    with leased(tmp_path, stale_after=1000, wait=False):
        assert numbers(tmp_path) == ["2"]
