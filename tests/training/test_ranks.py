"""Members over ranks: the same bits as in one process."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from processes import LAUNCHER, assert_all_well, environment_here, launched, saved_by
from tepui.core.storage import read_tensors
from training.cases import assert_same_bits, checkpointed
from training.rank_cases import (
    CASES,
    DIFFERENCES,
    SCRIPT,
    SIZES,
    Troubled,
    outcome,
    run_case,
)
from training.rank_kills import train


def assert_same_outcomes(first, second):
    assert_same_bits(first["weights"], second["weights"])
    for name in first.keys() - {"weights"}:
        assert first[name] == second[name], name


def assert_same_folders(first, second):
    """Compare what runs leave on disk, but for times and the command."""
    for one, other in zip(checkpointed(first), checkpointed(second), strict=True):
        assert_same_bits(one[0], other[0])
        assert one[1] == other[1]
    files = [folder / "ensemble.safetensors" for folder in (first, second)]
    assert_same_bits(*(read_tensors(file, "ensemble")[0] for file in files))
    configs = (
        json.loads((f / "run.json").read_text())["config"] for f in (first, second)
    )
    assert next(configs) == next(configs)
    names = (
        {
            re.sub(r"-\d+", "", p.name)
            for p in folder.rglob("*")
            if ".lease" not in p.parts  # a lease counts its holders
        }
        for folder in (first, second)
    )
    assert next(names) == next(names)


def assert_same_files(first, second):
    """Compare documents, but for digests and times."""
    timed = r'"(sha256|seconds|samples_per_second|exchange_seconds)": [^,}]*'
    one, other = (re.sub(timed, "", file.read_text()) for file in (first, second))
    assert one.partition('"timeline"')[0] == other.partition('"timeline"')[0]


def check_cases(names, size, folder):
    many, one = folder / "many", folder / "one"
    many.mkdir()
    one.mkdir()
    assert_all_well(launched(size, SCRIPT, many, *names))
    assert_all_well(launched(1, SCRIPT, one, *names))
    (alone,) = saved_by(one, [0])
    for each in saved_by(many, range(size)):
        for name in names:
            assert_same_outcomes(each[name], alone[name])
    for name in names:
        assert_same_folders(many / name, one / name)
        for file in ("metrics.jsonl", "outcome.json"):
            assert_same_files(many / name / file, one / name / file)


def test_two_ranks_give_the_bits_of_one_process(tmp_path):
    """All other cases take longer, and are those of any number of ranks."""
    check_cases(["SAM", "SharpBalance", "SED", "A2D", "unequal"], 2, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_any_number_of_ranks_gives_the_bits_of_one_process(tmp_path, size):
    check_cases(CASES, size, tmp_path)


# Of nine calls of the loss per member: in the first epoch, at its end, and where
# SharpBalance has switched.
STOPS = [
    "deep ensemble=SIGTERM:1:2",
    "heads=SIGTERM:1:4",
    "SharpBalance=SIGTERM:1:5",
    "SharpBalance=SIGINT:0:9",
    "SED=SIGTERM:1:4",
    "A2D, sequential=SIGINT:0:7",
]
DIVERGING = ["deep ensemble=nan:1:5", "DivDis=nan:1:8"]
NAMED = [
    ("epochs", "3", "4"),
    ("data.sha256", r"'\w+'", r"'\w+'"),
    ("data.hashes.0", r"'\w+'", r"'\w+'"),
    ("seeds.0", r"\d+", r"\d+"),
    ("checkpoint_every", "1", "2"),
    ("out", "'.*=out'", "'.*=out-1'"),
    ("members.0.1.weight", *[r"'\(8, 16\), sha256 \w+'"] * 2),
    ("torch", "'.*'", "'1.0'"),
]
FAILING = "SAM=error:1:3"


def test_ranks_stop_and_diverge_together_and_tell_each_other_of_errors(tmp_path):
    """In one launch, since a process takes seconds to start."""
    different = [f"different={what}" for what in DIFFERENCES]
    ended = launched(2, SCRIPT, tmp_path, *different, *STOPS, *DIVERGING, FAILING)
    assert_all_well(ended)
    first, second = saved_by(tmp_path, range(2))
    for name, (key, one, other) in zip(different, NAMED, strict=True):
        rule = (
            f"{key} must be the same on all ranks, got {one} on rank 0 and {other} on"
        )
        assert re.match(f"ValueError: {rule} rank 1", first[name])
        assert first[name] == second[name]
        assert not (tmp_path / name).exists()
    for name in STOPS:
        case, signalled = name.partition("=")[0], int(name.split(":")[1])
        said = (first, second)[signalled][name]
        assert said.startswith(("SystemExit: 143", "KeyboardInterrupt"))
        assert (first, second)[1 - signalled][name] == "SystemExit: 143"
        loss = Troubled.named(name)
        resumed = run_case(case, loss=loss, out=tmp_path / name, resume=True)
        whole = run_case(case, loss=loss, out=tmp_path / f"whole {name}")
        assert_same_outcomes(outcome(resumed), outcome(whole))
        assert_same_folders(resumed.path, whole.path)
    for name in DIVERGING:
        assert first[name] == second[name]
        assert first[name].startswith("TrainingDiverged: loss of member ")
    assert second[FAILING] == "ArithmeticError: no luck"
    told = "RankLost: rank 1 left the run with ArithmeticError: no luck; start the run "
    assert first[FAILING].startswith(told)
    assert "resume=True" in first[FAILING]


@pytest.mark.parametrize(
    "case", [pytest.param("SharpBalance", marks=pytest.mark.slow), "SED"]
)
def test_a_rank_that_dies_ends_the_run_of_the_others(tmp_path, case):
    name = f"{case}=SIGKILL:1:5"
    survivor, dead = launched(2, SCRIPT, tmp_path, name)
    assert (survivor[0], dead[0]) == (0, -9), survivor[2]
    said = torch.load(tmp_path / "0.pt", weights_only=False)[name]
    reasons = (
        "RankLost: rank 1 has died",
        "RankLost: the connection between ranks broke",
    )
    assert said.startswith(reasons)
    assert "resume=True" in said


@pytest.mark.slow
def test_killed_again_and_again_runs_end_at_the_same_bits(tmp_path):
    """Each resumed with other numbers of ranks; the last time maybe without any."""
    told = "import sys; from training.rank_kills import main; main(sys.argv[1], 50)"
    done = subprocess.run(
        [sys.executable, "-c", told, str(tmp_path)],
        env=environment_here(),
        capture_output=True,
        check=False,
        text=True,
        timeout=1500,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] >= 50
    for run in found["runs"]:
        assert set(run["ends"]) == {0}
        whole = train(run["case"], tmp_path / "whole" / run["case"])
        assert_same_folders(whole.path, Path(run["out"]))
        for file in ("metrics.jsonl", "outcome.json"):
            assert_same_files(whole.path / file, Path(run["out"]) / file)


def started_by_torchrun(size, script, *arguments, options=(), timeout=5):
    words = [f"--nproc-per-node={size}", *options, str(script), *map(str, arguments)]
    return subprocess.Popen(
        [*LAUNCHER, *words],
        env={**environment_here(), "TEPUI_RANK_TIMEOUT": str(timeout)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


KILLED_SCRIPT = """
import os, sys
from pathlib import Path
from training.rank_kills import train

case, out = sys.argv[1], Path(sys.argv[2])
Path(f"{out}-{os.environ['RANK']}.pid").write_text(str(os.getpid()))
train(case, out)
"""


@pytest.mark.slow
@pytest.mark.parametrize("case", ["SharpBalance", "SED"])
def test_ranks_end_when_their_launcher_is_killed(tmp_path, case):
    """It holds what ranks have in common, and nobody else would end them."""
    script, out = tmp_path / "script.py", tmp_path / "killed"
    script.write_text(KILLED_SCRIPT)
    launcher = started_by_torchrun(2, script, case, out)
    wait_until((out / "checkpoint.json").exists, 100)
    launcher.kill()
    launcher.wait()
    ranks = [int(Path(f"{out}-{rank}.pid").read_text()) for rank in range(2)]
    wait_until(lambda: not any(Path(f"/proc/{rank}").exists() for rank in ranks), 60)
    assert not (out / "outcome.json").exists()
    assert started_by_torchrun(3, script, case, out).wait(timeout=200) == 0
    assert_same_folders(train(case, tmp_path / "whole").path, out)


DYING_SCRIPT = """
import os, signal, sys
from itertools import count
from pathlib import Path
from training.rank_cases import SlowLoss
from training.rank_kills import train

attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
calls, loss = count(1), SlowLoss.__call__


def dying(self, outputs, targets):
    if os.environ["RANK"] == attempt and next(calls) == 12:
        os.kill(os.getpid(), signal.SIGKILL)
    return loss(self, outputs, targets)


SlowLoss.__call__ = dying
train("SharpBalance", Path(sys.argv[1]))
"""


@pytest.mark.slow
def test_torchrun_starts_ranks_again_that_go_on(tmp_path):
    """The first time rank 0 dies, the second time rank 1."""
    script, out = tmp_path / "script.py", tmp_path / "restarted"
    script.write_text(DYING_SCRIPT)
    # Ranks that die are missed at once; those that start late must not be.
    options = {"options": ["--max-restarts=2"], "timeout": 60}
    launcher = started_by_torchrun(2, script, out, **options)
    assert launcher.wait(timeout=200) == 0
    assert_same_folders(train("SharpBalance", tmp_path / "whole").path, out)


def wait_until(holds, seconds):
    last = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < last
        time.sleep(0.02)


OWN_GROUP = """
import os, sys
from torch import distributed
from training.rank_cases import rank

where, number = sys.argv[1], int(os.environ.pop("RANK"))
size = int(os.environ.pop("WORLD_SIZE"))
distributed.init_process_group(
    "gloo", init_method=f"file://{where}/store", rank=number, world_size=size
)
rank(where, *sys.argv[2:], number=number)
distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_a_process_group_that_is_there_is_used(tmp_path):
    names = ["SharpBalance", "A2D"]
    assert_all_well(launched(2, OWN_GROUP, tmp_path, *names))
    for name in names:
        alone = outcome(run_case(name))
        for each in saved_by(tmp_path, range(2)):
            assert_same_outcomes(each[name], alone)
