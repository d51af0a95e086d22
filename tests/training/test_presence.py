"""Ranks that wait for each other, as threads on a store in memory."""

import subprocess
import sys
import threading
import time

import pytest
from torch.distributed import HashStore

from tepui.training import ranks as module
from tepui.training.exchange import RankLost, unbroken
from tepui.training.ranks import Presence


def presence(store, rank, size=2, timeout=0.5):
    return Presence(store, rank, size, timeout)


def test_all_have_come_when_one_goes_on():
    store, came = HashStore(), []
    ranks = [presence(store, rank, 3, timeout=1000) for rank in range(3)]

    def arrive(rank, seconds):
        for meeting in range(3):
            time.sleep(seconds)
            came.append((meeting, rank))
            ranks[rank].wait_for_all()
            assert len([each for each in came if each[0] == meeting]) == 3

    threads = [threading.Thread(target=arrive, args=(n, n * 0.05)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive()
    assert len(came) == 9


class Days:
    """A clock by which a pause of the rank that waits takes a day, and what it sees."""

    def __init__(self, *events):
        self.now, self.events = 0, iter(events)

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += 1
        next(self.events)()


def test_a_rank_that_computes_for_long_is_waited_for(monkeypatch):
    store = HashStore()
    first = presence(store, 0, timeout=5)
    beat, come = lambda: store.add("beat/1", 1), lambda: store.add("arrived/1", 1)
    days = Days(*[beat] * 20, come)
    monkeypatch.setattr(module, "time", days)
    first.wait_for_all()
    assert days.now == 21
    monkeypatch.setattr(module, "time", Days(*[beat] * 20, *[lambda: None] * 20))
    with pytest.raises(RankLost, match="rank 1 gave no sign of life for 5 s"):
        first.wait_for_all()


def test_a_rank_beats_while_it_computes():
    store = HashStore()
    presence(store, 0)
    last = time.monotonic() + 120
    while store.add("beat/0", 0) < 3:
        assert time.monotonic() < last
        time.sleep(0.01)


def test_a_rank_that_ended_beats_no_more():
    store = HashStore()
    ranks = [presence(store, rank) for rank in range(2)]
    ranks[1].end()
    store.delete_key("process/1")  # it runs in this process, which is alive
    with pytest.raises(RankLost, match="rank 1 gave no sign of life"):
        ranks[0].wait_for_all()


def test_a_rank_without_a_beat_is_lost():
    with pytest.raises(
        RankLost, match=r"rank 1 gave no sign of life for 0\.5 s; start"
    ):
        presence(HashStore(), 0).wait_for_all()


def test_a_rank_whose_process_ended_is_lost_at_once():
    store = HashStore()
    first = presence(store, 0, timeout=1000)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    machine = store.get("process/0").decode().rsplit(" ", 1)[0]
    store.set("process/1", f"{machine} {ended.pid}")
    while ended.returncode is None:  # even before its parent asks for it
        with pytest.raises(
            RankLost, match=r"rank 1 has died; start the run again with"
        ):
            first.wait_for_all()
        ended.wait(timeout=120)


def test_a_rank_that_left_says_why_to_those_who_wait():
    store = HashStore()
    first, second = (presence(store, rank, timeout=1000) for rank in range(2))
    with pytest.raises(ValueError, match="wrong"), second.attending():
        raise ValueError("wrong")
    left = r"rank 1 left the run with ValueError: wrong; start the run again"
    with pytest.raises(RankLost, match=left), first.attending():
        first.wait_for_all()


def test_a_rank_that_left_since_another_is_lost_says_how_to_go_on_once():
    store = HashStore()
    first, second = (presence(store, rank, 3, timeout=1000) for rank in range(2))
    with pytest.raises(RankLost), second.attending():
        raise RankLost("rank 2 has died")
    with pytest.raises(RankLost) as told, first.attending():
        first.wait_for_all()
    assert str(told.value).count("start the run again") == 1
    assert "rank 1 left the run with RankLost: rank 2 has died;" in str(told.value)


def test_what_a_rank_left_before_does_not_count_in_the_next_run():
    store = HashStore()
    ranks = [presence(store, rank, timeout=1000) for rank in range(2)]
    for rank in ranks:
        with pytest.raises(ValueError, match="wrong"), rank.attending():
            raise ValueError("wrong")

    def late():
        with ranks[1].attending():
            time.sleep(0.6)
            ranks[1].wait_for_all()

    thread = threading.Thread(target=late)
    thread.start()
    with ranks[0].attending():
        ranks[0].wait_for_all()
    thread.join()


def test_a_broken_connection_is_told_in_plain_words():
    told = r"connection between ranks broke \(reset\); start"
    with pytest.raises(RankLost, match=told), unbroken():
        raise RuntimeError("reset")
