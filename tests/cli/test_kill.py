"""``tepui compare`` killed at random moments and resumed ends in the same bits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tepui
from tepui.core.storage import read_tensors, same_bits

pytestmark = pytest.mark.slow

# Children of one process: it takes longer to import everything than to compare.
SCRIPT = """
import os, random, shutil, signal, sys, time
from pathlib import Path

from tepui.cli.main import main

SMALL = ["--members", "2", "--epochs", "2", "--ensembles", "1"]
SMALL += ["--model", "ConvNet(width=4)"]
SMALL += ["--set", "sharpness=10", "corruptions=none", "progress=none"]


def compare(out, *more):
    main(["compare", *SMALL, "--out", str(out), *more])


def in_child(out):
    child = os.fork()
    if child == 0:
        compare(out, "--resume")
        os._exit(0)
    return child


def kill_after(child, out, checkpoints, delay):
    '''Kill a comparison once it wrote so many checkpoints; return how it ended.'''
    while len(list(out.glob("*/*/checkpoint.json"))) < checkpoints:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
        time.sleep(0.02)
    else:
        time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


folder, times = Path(sys.argv[1]), int(sys.argv[2])
compare(folder / "whole")
moments, out, ends, longest = random.Random(0), folder / "killed", [], 0.3
while len(ends) < times:
    # Three methods: kill while the first, the second and the third one trains.
    checkpoints, delay = 1 + 3 * len(ends) // times, moments.uniform(0, longest)
    ends.append(kill_after(in_child(out), out, checkpoints, delay))
    if ends[-1] == 0:  # it was faster
        shutil.rmtree(out)
        ends, longest = [], longest / 2
ends.append(os.waitstatus_to_exitcode(os.waitpid(in_child(out), 0)[1]))
print(*ends)
"""


def trained(out):
    return {
        str(file.relative_to(out)): read_tensors(file, "ensemble")[0]
        for file in sorted(out.rglob("ensemble.safetensors"))
    }


@pytest.mark.parametrize(
    "times", [pytest.param(3), pytest.param(10, marks=pytest.mark.slow)]
)
def test_killed_and_resumed_is_bit_identical(tmp_path, times):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), str(times)],
        env={**os.environ, "PYTHONPATH": str(Path(tepui.__file__).parents[1])},
        capture_output=True,
        check=False,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    *killed, last = [int(end) for end in done.stdout.splitlines()[-1].split()]
    assert killed == [-9] * times
    assert last == 0
    whole, killed = trained(tmp_path / "whole"), trained(tmp_path / "killed")
    assert whole.keys() == killed.keys()
    assert len(whole) == 3
    for name, tensors in whole.items():
        assert same_bits(tensors, killed[name]), name
