import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tepui.core import lease as module
from tepui.core.lease import LeaseLostError, leased
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


def test_it_is_released_after_an_error(tmp_path):
    with pytest.raises(InterruptedError), leased(tmp_path):
        raise InterruptedError
    with leased(tmp_path, stale_after=1000):
        pass


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


def test_a_stale_lease_of_another_host_is_taken_over_after_its_time(tmp_path):
    foreign(tmp_path)
    start = time.monotonic()
    with leased(tmp_path, stale_after=0.5):
        assert numbers(tmp_path) == ["2"]
    assert time.monotonic() - start >= 0.5


def test_a_lease_that_is_renewed_is_not_taken_over(tmp_path):
    ended = threading.Event()

    def hold():
        with leased(tmp_path, stale_after=0.5):
            ended.wait(1.5)

    holder = threading.Thread(target=hold)
    holder.start()
    while not tmp_path.joinpath("1").exists():
        time.sleep(0.01)
    start = time.monotonic()
    with leased(tmp_path, stale_after=0.5):
        assert time.monotonic() - start > 1
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
        with leased(tmp_path):
            assert numbers(tmp_path) == ["2"]
        assert time.monotonic() - start < 10


def test_another_process_with_the_number_of_the_holder_does_not_count(tmp_path):
    holder = {"host": host(), "process": os.getpid(), "started": "long ago"}
    (tmp_path / "1").write_text(json.dumps(holder) + "\n")
    with leased(tmp_path, stale_after=1000):
        pass


def test_the_time_must_be_positive(tmp_path):
    with (
        pytest.raises(ValueError, match="stale_after must be positive, got 0"),
        leased(tmp_path, stale_after=0),
    ):
        pass
