"""``tepui compare`` killed at random moments and resumed ends in the same bits."""

import random
import subprocess
import sys
import time

import pytest

from tepui.storage import read_tensors, same_bits

COMMAND = [sys.executable, "-m", "tepui", "compare", "--members", "2", "--quiet"]
SMALL = ["--epochs", "2", "--model.width", "4", "--corruptions", "none"]


def command(out, *more):
    model = ["--model", "ConvNet", *SMALL]
    return [*COMMAND, *model, "--out", str(out), *more]


def trained(out):
    return {
        str(file.relative_to(out)): read_tensors(file)[0]
        for file in sorted(out.rglob("ensemble.safetensors"))
    }


@pytest.mark.slow
def test_killed_ten_times_and_resumed_is_bit_identical(tmp_path):
    started = time.monotonic()
    subprocess.run(command(tmp_path / "whole"), check=True, timeout=300)
    duration = time.monotonic() - started
    moments = random.Random(0)
    kills = 0
    for _ in range(10):
        process = subprocess.Popen(command(tmp_path / "killed", "--resume"))
        try:
            process.wait(moments.uniform(0.2, 0.9) * duration)
        except subprocess.TimeoutExpired:
            process.kill()
            kills += 1
        process.wait()
    subprocess.run(command(tmp_path / "killed", "--resume"), check=True, timeout=300)
    assert kills >= 3
    whole, killed = trained(tmp_path / "whole"), trained(tmp_path / "killed")
    assert whole.keys() == killed.keys()
    assert len(whole) == 2
    for name, tensors in whole.items():
        assert same_bits(tensors, killed[name]), name
