"""A run killed at any moment and resumed, by either way, ends in the same bits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tepui
from tepui.training import Run
from training.cases import assert_same_runs

KILLS = 200
# Children of one process die before or after one of its steps, or before one of the
# operations on a file of their run: where is drawn, and the clock has no part in it.
SCRIPT = """
import os, random, signal, sys
from pathlib import Path

import torch

torch.set_num_threads(1)
from tepui.cli.main import main
from tepui.training import Run
from tepui.training.member import TrainingMember

TRAIN = ["--epochs", "3", "--members", "2", "--validation", "0.25", "--model"]
TRAIN += ["ConvNet(width=2)", "--method", "SAM", "--optimizer", "AdamW(lr=0.01)"]
TRAIN += ["--augment", "RandomCrop(1)", "HorizontalFlip", "--set", "batch_size=256"]
TRAIN += ["keep=best", "device=cpu", "ema=0.9", "progress=none"]
root, kills = Path(sys.argv[1]), int(sys.argv[2])
left = sys.maxsize


def count_down():
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def heard(event, arguments):
    if event in ("open", "os.rename", "os.remove", "os.mkdir"):
        if str(arguments[0]).startswith(str(root)):
            count_down()


def counted(member, gradients, step=TrainingMember.take_step):
    count_down()
    step(member, gradients)
    count_down()


def train(out, by_command):
    if by_command or not (out / "run.json").exists():
        main(["train", *TRAIN, "--resume", "--out", str(out)])
    else:
        Run.open(out).resume(progress="none")


def killed(out, after, by_command):
    global left
    if child := os.fork():
        end = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert end in (0, -signal.SIGKILL), end
        return end != 0
    left = after
    train(out, by_command)
    sys.stdout.flush()
    os._exit(0)


sys.addaudithook(heard)
TrainingMember.take_step = counted
train(root / "whole", by_command=True)
moments, done, runs = random.Random(0), 0, 0
points = sys.maxsize - left
while done < kills:
    after = moments.randint(1, points // 2)
    if killed(root / f"killed{runs}", after, by_command=done % 2 == 0):
        done += 1
    else:
        runs += 1
train(root / f"killed{runs}", by_command=False)
"""


@pytest.mark.slow
def test_killed_anywhere_and_resumed_a_run_ends_at_the_same_bits(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), str(KILLS)],
        env={**os.environ, "PYTHONPATH": str(Path(tepui.__file__).parents[1])},
        capture_output=True,
        check=False,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    runs = [Run.open(folder) for folder in tmp_path.glob("killed*")]
    assert len(runs) > KILLS // 20
    whole = Run.open(tmp_path / "whole")
    assert len(whole.history) == 3
    for run in runs:
        assert_same_runs(whole, run)
