"""Where the time of a run goes: nothing is lost, and nothing is counted twice."""

import gc
import sys
import time
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tepui.methods import SharpBalance
from tepui.training.history import ACTIVITIES, Clock
from tepui.training.run_folder import RunFolder
from training.cases import StoppedError, fitted, images
from training.cases import stop_after as killed_after

keys = st.sampled_from(ACTIVITIES)
# What is done in a block: seconds that pass, and blocks within it.
blocks = st.recursive(
    st.integers(0, 5),
    lambda inner: st.tuples(keys, st.lists(inner, max_size=4)),
    max_leaves=15,
)


class Time:
    """A clock on the wall that moves only when it is told to."""

    now = 0

    def __call__(self):
        return self.now


def live(clock, wall, todo):
    for item in todo:
        if isinstance(item, int):
            wall.now += item
        else:
            with clock.during(item[0]):
                live(clock, wall, item[1])


def naive(todo, key, spent):
    """Add up the seconds that pass directly in each block."""
    for item in todo:
        if isinstance(item, int):
            spent[key] += item
        else:
            naive(item[1], item[0], spent)
    return spent


def total(timeline):
    return sum(timeline.values())


@given(st.lists(blocks, max_size=6))
def test_every_second_belongs_to_the_innermost_activity(todo):
    wall = Time()
    clock = Clock(wall)
    live(clock, wall, todo)
    expected = naive(todo, "preparing", Counter())
    assert clock.timeline == +expected
    assert clock.seconds(*ACTIVITIES) == total(clock.timeline) == wall.now


class Busy:
    """The time that this thread computes, or pauses as tests do; not that of others."""

    paused = 0.0

    def __call__(self):
        return time.thread_time() + self.paused


busy = Busy()


@pytest.fixture
def _by_its_own_time(monkeypatch):
    module = sys.modules["tepui.training.train"]  # its name is that of a function too
    monkeypatch.setattr(module, "Clock", lambda: Clock(busy))
    gc.disable()  # what others left behind would take its time anywhere
    yield
    gc.enable()


@pytest.mark.usefixtures("_by_its_own_time")
def test_a_run_says_where_all_of_its_time_went(tmp_path):
    began = busy()
    run = fitted(
        images(),
        method=SharpBalance(switch_at=2, score=slow_score),
        epochs=4,
        validation=0.25,
        checkpoint_every=3,
        callbacks=[slow_callback],
        out=tmp_path,
    )
    passed = busy() - began
    assert total(run.timeline) <= passed
    assert total(run.timeline) == pytest.approx(passed, rel=0, abs=0.2)
    found = RunFolder(tmp_path).outcome().timeline
    assert found == run.timeline
    assert [*run.timeline] == [name for name in ACTIVITIES if name != "capturing"]
    recorded = sum(record.seconds for record in run.history)
    assert recorded == pytest.approx(found["stepping"])
    assert found["other"] >= 4 * MINUTE
    assert found["scoring"] >= 2 * MINUTE  # two members
    exchange = found["scoring"] + found["exchanging"]
    assert run.history[2].exchange_seconds == exchange
    assert [record.exchange_seconds for record in run.history] == [0, 0, exchange, 0]


PAUSE, MINUTE = 0.02, 60.0  # of the machine's time, and of such a clock's


def slow_score(module, dataset):
    busy.paused += MINUTE
    return torch.arange(len(dataset), dtype=torch.float32)


def slow_callback(record):
    busy.paused += MINUTE


def test_a_resumed_run_counts_what_came_before(tmp_path):
    with pytest.raises(StoppedError):
        fitted(images(), epochs=3, out=tmp_path, callbacks=[killed_after(1)])
    before = RunFolder(tmp_path).outcome()
    run = fitted(images(), epochs=3, out=tmp_path, resume=True)
    spent = run.timeline
    assert spent["preparing"] > before.timeline["preparing"]
    assert spent["restoring"] > before.timeline["restoring"]
    assert run.history[0].seconds == before.history[0].seconds
    recorded = sum(record.seconds for record in run.history)
    assert spent["stepping"] == pytest.approx(recorded)
    again = fitted(images(), epochs=3, out=tmp_path, resume=True)
    assert again.timeline == run.timeline
