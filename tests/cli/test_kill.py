"""``tepui compare`` killed at random moments and resumed ends in the same bits."""

import random
import subprocess
import sys
import time

import pytest

from tepui.storage import read_tensors, same_bits

COMMAND = [sys.executable, "-m", "tepui", "compare", "--members", "2", "--quiet"]
SMALL = ["--epochs", "2", "--ensembles", "1", "--corruptions", "none"]
MODEL = ["--model", "ConvNet", "--model.width", "4"]


def command(out, *more):
    return [*COMMAND, *MODEL, *SMALL, "--out", str(out), *more]


def trained(out):
    return {
        str(file.relative_to(out)): read_tensors(file)[0]
        for file in sorted(out.rglob("ensemble.safetensors"))
    }


@pytest.mark.parametrize(
    "times", [pytest.param(3), pytest.param(10, marks=pytest.mark.slow)]
)
def test_killed_and_resumed_is_bit_identical(tmp_path, times):
    started = time.monotonic()
    subprocess.run(command(tmp_path / "whole"), check=True, timeout=300)
    duration = time.monotonic() - started
    moments = random.Random(0)
    kills = 0
    for _ in range(times):
        process = subprocess.Popen(command(tmp_path / "killed", "--resume"))
        try:
            process.wait(moments.uniform(0.2, 0.9) * duration)
        except subprocess.TimeoutExpired:
            process.kill()
            kills += 1
        process.wait()
    subprocess.run(command(tmp_path / "killed", "--resume"), check=True, timeout=300)
    assert kills >= min(times, 3) - 1
    whole, killed = trained(tmp_path / "whole"), trained(tmp_path / "killed")
    assert whole.keys() == killed.keys()
    assert len(whole) == 3
    for name, tensors in whole.items():
        assert same_bits(tensors, killed[name]), name
