"""The fault suites at small size, and the machinery that runs them at any."""

import errno
import os
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from faults import __main__ as command
from faults import disk, files, kills, scenarios
from faults.children import ended, forked, last_words
from faults.engine import Suite, pending, tried
from faults.once import made_once
from faults.shim import at_operations
from faults.suites import SUITES
from faults.totals import WRONG, Totals, ranges, read_totals, write_totals
from processes import search_path
from tepui.core.storage import write_document

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="forks, and looks into /proc"
)
# What takes less than a second each; the rest is for make test-faults.
SMALL = {
    "kills": [3, 8, 15, 16, 19],
    "disk": range(4, 8),
    "files": range(3 * len(files.NAMES), 3 * len(files.NAMES) + 40),
    "resumes": [4, 10, 16, 22],
}


@pytest.mark.parametrize("suite", SMALL)
def test_nothing_is_wrong(suite, tmp_path):
    found = [*tried(SUITES[suite], SMALL[suite], tmp_path)]
    assert [seed for seed, _, _ in found] == [*SMALL[suite]]
    assert [each for each in found if each[2].startswith(WRONG)] == []


@pytest.mark.slow
@pytest.mark.parametrize("suite", SUITES)
def test_nothing_is_wrong_with_more_seeds(suite, tmp_path):
    found = [*tried(SUITES[suite], range(60), tmp_path)]
    assert len(found) == 60
    assert [each for each in found if each[2].startswith(WRONG)] == []


def test_half_of_the_kills_leave_no_time_and_all_work_is_killed():
    turns = [kills.turn(seed) for seed in range(1000)]
    assert sum(number == signal.SIGKILL for _, number in turns) == 500
    assert {name for name, _ in turns} == {*scenarios.SCENARIOS, kills.RANKS}


def reckless(folder):
    """Write without care: no temporary file, nothing kept."""
    with (folder / "a.json").open("w") as file:
        file.write('{"value":')
        file.flush()
        file.write("1}")
    (folder / "done").mkdir(exist_ok=True)


@pytest.mark.parametrize("suite", [kills, disk])
def test_careless_work_is_found_out(suite, tmp_path, monkeypatch):
    def work(folder):
        if not (folder / "a.json").exists():
            reckless(folder)
        (folder / "done").mkdir(exist_ok=True)

    case = {"training": scenarios.Scenario(work)}
    monkeypatch.setattr(scenarios, "SCENARIOS", case)
    for module in (kills, disk):
        monkeypatch.setattr(module, "SCENARIOS", case)
        monkeypatch.setattr(module, "TURNS", ("training",))
    monkeypatch.setattr(kills, "RARE", {})
    ends = [suite.outcome(seed, tmp_path)[1] for seed in range(12)]
    assert any(end.startswith(WRONG) for end in ends)


def test_a_silent_acceptance_is_found_out(tmp_path, monkeypatch):
    case = files.CASES["idx"]
    sealed = {"idx": files.CASES["idx"].__class__(case.make, case.read, sealed=True)}
    monkeypatch.setattr(files, "CASES", sealed)
    monkeypatch.setattr(files, "NAMES", ("idx",))
    suite = Suite(files.outcome, "")  # in a process of its own, whose memory is bounded
    ends = [end for _, _, end in tried(suite, range(20), tmp_path)]
    assert any("accepted, changed" in end for end in ends)


def test_the_shim_counts_and_fails_where_it_is_told(tmp_path):
    folder, seen = tmp_path / "watched", []

    def note(number, operation, path):
        assert number == len(seen) + 1
        seen.append(operation)

    def fail(number, operation, path):
        if number == seen.index("write") + 1:
            raise OSError(errno.ENOSPC, "full")

    with at_operations(folder, note):
        (tmp_path / "elsewhere.txt").write_text("not counted")
        write_document(folder / "a.json", "test", {})
    assert seen == ["mkdir", "open", "open", "write", "fsync", "replace"]
    with (
        pytest.raises(OSError, match=r"b\.json could not be written: full"),
        at_operations(folder, fail),
    ):
        write_document(folder / "b.json", "test", {})
    assert [*folder.iterdir()] == [folder / "a.json"]


def test_a_child_tells_how_it_ended(tmp_path):
    log = tmp_path / "log"

    def fails():
        raise ValueError("no luck")

    assert ended(forked(lambda: None, log)) == 0
    assert ended(forked(fails, log)) == 1
    assert last_words(log) == "ValueError: no luck"
    assert ended(forked(lambda: time.sleep(60), log), seconds=0.05) > 128


@pytest.mark.parametrize(
    ("number", "end"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)]
)
def test_a_signal_before_the_work_began_is_one_of_the_work(
    number, end, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        "faults.children.torch.set_num_threads",
        lambda count: os.kill(os.getpid(), number),
    )
    assert ended(forked(lambda: None, tmp_path / "log")) == end
    assert last_words(tmp_path / "log") == ""


def test_a_folder_is_made_once_and_of_a_failure_nothing_stays(tmp_path):
    made = []

    def make(folder):
        made.append(folder)
        (folder / "a").touch()
        if len(made) == 1:
            raise RuntimeError("no luck")
        if len(made) == 2:  # another process is faster
            (tmp_path / "x").mkdir()
            (tmp_path / "x" / "b").touch()

    with pytest.raises(RuntimeError, match="no luck"):
        made_once(tmp_path / "x", make)
    assert [*tmp_path.iterdir()] == []
    for _ in range(2):
        assert [*made_once(tmp_path / "x", make).iterdir()] == [tmp_path / "x" / "b"]
    assert len(made) == 2
    assert [*tmp_path.iterdir()] == [tmp_path / "x"]


def test_another_interpreter_finds_what_this_one_does(tmp_path, monkeypatch):
    (tmp_path / "only_here.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    environment = {**os.environ, "PYTHONPATH": search_path()}
    command = [sys.executable, "-c", "import only_here, tepui, faults"]
    subprocess.run(command, env=environment, check=True)


def strange(seed, folder):
    if seed == 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    if seed == 4:
        (folder / "hangs").write_text(str(os.getpid()))
        time.sleep(1000)
    if seed == 5:
        raise KeyError("in the suite")
    return "group", "fine"


def test_crashes_hangs_and_errors_are_wrong_and_the_others_go_on(tmp_path, monkeypatch):
    hanging, hours = tmp_path / "hangs", count()

    def now():
        """Return the time; while a process hangs, an hour passes between two looks."""
        process = hanging.read_text() if hanging.exists() else ""
        hangs = process and Path("/proc", process).exists()
        return time.monotonic() + 3600 * (next(hours) if hangs else 0)

    monkeypatch.setattr("faults.engine.time", SimpleNamespace(monotonic=now))
    suite = Suite(strange, "", patience=600, together=3)
    found = {seed: end for seed, _, end in tried(suite, range(8), tmp_path)}
    assert {seed for seed, end in found.items() if end == "fine"} == {0, 1, 3, 6, 7}
    assert found[2] == "WRONG: crash, ended with -11"
    assert found[4].startswith("WRONG: hang")
    assert found[5] == "WRONG: KeyError: 'in the suite'"


def test_totals_are_resumed_and_a_seed_counts_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "SUITES", {"naming": Suite(strange, "names")})
    monkeypatch.setattr(command, "warm_up", lambda folder: None)
    file = tmp_path / "totals.json"
    words = ["--suite", "naming", "--totals", str(file), "--seeds"]
    assert command.main([*words, "0:2"]) == 0
    assert command.main([*words, "1:4"]) == 1
    found = read_totals(file)["naming"]
    assert found.document()["seeds"] == [[0, 4]]
    assert found.by_outcome() == {"fine": 3, WRONG: 1}
    assert pending(found, 0, 6) == [4, 5]
    shown = capsys.readouterr()
    assert "naming 2: crash: WRONG" in shown.err
    assert shown.out.splitlines()[-1].split() == ["fine", "3"]
    monkeypatch.setattr(command, "SUITES", {"naming": Suite(lambda *_: ("a", "b"), "")})
    assert command.main([*words, "0:4", "--again"]) == 0
    assert read_totals(file)["naming"].by_outcome() == {"fine": 3, "b": 1}


def test_totals_survive_the_file(tmp_path):
    totals = Totals()
    for seed, end in ((3, "fine"), (4, "WRONG: bad"), (9, "fine")):
        totals.add(seed, "group", end)
    write_totals(tmp_path / "t.json", {"a": totals})
    assert read_totals(tmp_path / "t.json") == {"a": totals}
    assert ranges(totals.seeds) == [[3, 5], [9, 10]]
