"""Where the time of a run goes: nothing is lost, and nothing is counted twice."""

import gc
import os
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from itertools import count

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tepui.core.storage import read_document, write_document
from tepui.losses import cross_entropy
from tepui.methods import SED, SharpBalance
from tepui.training.run_folder import RunFolder
from tepui.training.slots import SlotRunner
from tepui.training.timeline import ACTIVITIES, Clock, Span, by_activity, in_words
from training.cases import CHECKPOINT, StoppedError, fitted, images, one_thread
from training.cases import stop_after as killed_after

single = pytest.fixture(autouse=True)(one_thread)

keys = st.tuples(st.sampled_from(ACTIVITIES), st.none() | st.integers(0, 2))
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
            with clock.during(*item[0]):
                live(clock, wall, item[1])


def naive(todo, key, spent):
    """Add up the seconds that pass directly in each block."""
    for item in todo:
        if isinstance(item, int):
            spent[key] += item
        else:
            naive(item[1], item[0], spent)
    return spent


def spans(timeline, activity):
    """Return the epochs of an activity, in order."""
    return [span.epoch for span in timeline if span.activity == activity]


def total(timeline):
    return sum(span.seconds for span in timeline)


@given(st.lists(blocks, max_size=6))
def test_every_second_belongs_to_the_innermost_activity(todo):
    wall = Time()
    clock = Clock(wall)
    live(clock, wall, todo)
    expected = naive(todo, ("preparing", None), Counter())
    found = {(span.activity, span.epoch): span.seconds for span in clock.timeline}
    assert {key: value for key, value in found.items() if value} == +expected
    for key in found:
        assert clock.seconds(*key) == expected[key]
    assert total(clock.timeline) == wall.now
    by_name = Counter()
    for (name, _), seconds in expected.items():
        by_name[name] += seconds
    assert +Counter(by_activity(clock.timeline)) == +by_name


def test_an_error_leaves_its_activity_too():
    wall = Time()
    clock = Clock(wall)
    with suppress(StoppedError), clock.during("saving", 3):
        wall.now += 2
        raise StoppedError
    wall.now += 1
    assert clock.timeline == (Span("preparing", None, 1), Span("saving", 3, 2))


def test_what_was_spent_before_comes_first_and_adds_up():
    wall = Time()
    clock = Clock(wall)
    wall.now += 1
    clock.go_on_from([Span("saving", 0, 4), Span("preparing", None, 2)])
    assert clock.timeline == (Span("saving", 0, 4), Span("preparing", None, 3))


def test_one_line_says_what_took_most():
    timeline = [Span("preparing", None, 0.1), Span("stepping", 0, 80.0)]
    timeline += [Span("scoring", 1, 20.0), Span("stepping", 1, 99.9)]
    assert in_words(timeline) == "200.0 s: stepping 90 %, scoring 10 %"


def test_an_unknown_activity_is_refused():
    with pytest.raises(ValueError, match=r"activity must be one of .* got 'napping'"):
        Span.of({"activity": "napping", "epoch": None, "seconds": 1.0})


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
    assert RunFolder(tmp_path).timeline() == run.timeline
    epochs = {
        "preparing": [None],
        "restoring": [None],
        "scoring": [2],
        "exchanging": [2],
        "stepping": [0, 1, 2, 3],
        "validating": [0, 1, 2, 3],
        "saving": [2, 3],
        "finishing": [None],
        "other": [0, 1, 2, 3],
    }
    assert {name: spans(run.timeline, name) for name in ACTIVITIES} == {
        **epochs,
        "capturing": [],
    }
    found = {(span.activity, span.epoch): span.seconds for span in run.timeline}
    for record in run.history:
        assert record.seconds == found["stepping", record.epoch]
        assert found["other", record.epoch] >= MINUTE
    assert found["scoring", 2] >= 2 * MINUTE  # two members
    exchange = found["scoring", 2] + found["exchanging", 2]
    assert run.history[2].exchange_seconds == exchange


PAUSE, MINUTE = 0.02, 60.0  # of the machine's time, and of such a clock's


def slow_score(module, dataset):
    busy.paused += MINUTE
    return torch.arange(len(dataset), dtype=torch.float32)


def slow_callback(record):
    busy.paused += MINUTE


def test_what_precedes_replayed_steps_is_no_part_of_them(monkeypatch):
    monkeypatch.setattr("tepui.training.prepare.CoupledRunner", SlotRunner)
    prepare = SlotRunner._prepare

    def slow(*arguments):
        time.sleep(5 * PAUSE)
        prepare(*arguments)

    monkeypatch.setattr(SlotRunner, "_prepare", slow)
    run = fitted(images(), method=SED(active=2), epochs=3)
    assert spans(run.timeline, "capturing") == [0]
    assert by_activity(run.timeline)["capturing"] >= 5 * PAUSE
    stepping = [span.seconds for span in run.timeline if span.activity == "stepping"]
    assert stepping == [record.seconds for record in run.history]


def test_a_resumed_run_counts_what_came_before(tmp_path):
    with pytest.raises(StoppedError):
        fitted(images(), epochs=3, out=tmp_path, callbacks=[killed_after(1)])
    before = RunFolder(tmp_path).timeline()
    assert spans(before, "stepping") == [0]
    run = fitted(images(), epochs=3, out=tmp_path, resume=True)
    assert spans(run.timeline, "stepping") == [0, 1, 2]
    spent, first = by_activity(run.timeline), by_activity(before)
    assert spent["preparing"] > first["preparing"]
    assert spent["restoring"] > first["restoring"]
    again = fitted(images(), epochs=3, out=tmp_path, resume=True)
    assert again.timeline == run.timeline


def test_an_epoch_in_two_parts_took_the_time_of_both(tmp_path):
    steps = count()

    def loss(outputs, targets):
        if next(steps) == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(PAUSE)
        return cross_entropy(outputs, targets)

    with pytest.raises(SystemExit):
        fitted(images(), epochs=1, loss=loss, out=tmp_path)
    run = fitted(images(), epochs=1, loss=loss, out=tmp_path, resume=True)
    (record,) = run.history
    assert record.seconds >= 6 * PAUSE  # three steps of two members
    assert record.samples_per_second == pytest.approx(48 / record.seconds)


def test_a_branch_takes_over_the_time_of_what_it_goes_on_from(tmp_path):
    method = SharpBalance(before="plain")
    how = {"epochs": 4, "members": 3}
    fitted(images(), stop_after=2, out=tmp_path / "begun", **how)
    begun = RunFolder(tmp_path / "begun").timeline()
    how |= {"method": method, "branch_from": tmp_path / "begun"}
    run = fitted(images(), out=tmp_path / "branch", **how)
    assert spans(run.timeline, "stepping") == [0, 1, 2, 3]
    assert [s for s in run.timeline if s in begun and s.activity == "stepping"] == [
        s for s in begun if s.activity == "stepping"
    ]
    assert spans(run.timeline, "saving") == [0, 1, None, 2, 3]


def test_runs_from_before_timelines_go_on_without(tmp_path):
    with pytest.raises(StoppedError):
        fitted(images(), epochs=3, out=tmp_path, callbacks=[killed_after(1)])
    file = tmp_path / CHECKPOINT
    document = read_document(file, "checkpoint")
    del document["timeline"]
    write_document(file, "checkpoint", document)
    assert RunFolder(tmp_path).timeline() == ()
    run = fitted(images(), epochs=3, out=tmp_path, resume=True)
    assert spans(run.timeline, "stepping") == [1, 2]
    assert len(run.history) == 3
