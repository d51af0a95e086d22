"""``tepui compare`` killed at random moments and resumed ends in the same bits."""

import random
import subprocess
import sys
import time

import pytest

from tepui.core.storage import read_tensors, same_bits

COMMAND = [sys.executable, "-m", "tepui", "compare", "--members", "2", "--quiet"]
COMMAND += ["--sharpness", "10"]
SMALL = ["--epochs", "2", "--ensembles", "1", "--corruptions", "none"]
MODEL = ["--model", "ConvNet", "--model.width", "4"]


def command(out, *more):
    return [*COMMAND, *MODEL, *SMALL, "--out", str(out), *more]


def trained(out):
    return {
        str(file.relative_to(out)): read_tensors(file, "ensemble")[0]
        for file in sorted(out.rglob("ensemble.safetensors"))
    }


def kill_after(process, out, checkpoints, delay):
    """Kill a comparison once it wrote so many checkpoints; return whether it ran."""
    while process.poll() is None:
        if len(list(out.rglob("checkpoint.json"))) >= checkpoints:
            time.sleep(delay)
            break
        time.sleep(0.02)
    running = process.poll() is None
    process.kill()
    process.wait()
    return running


@pytest.mark.parametrize(
    "times", [pytest.param(3), pytest.param(10, marks=pytest.mark.slow)]
)
def test_killed_and_resumed_is_bit_identical(tmp_path, times):
    subprocess.run(command(tmp_path / "whole"), check=True, timeout=300)
    moments, out = random.Random(0), tmp_path / "killed"
    kills = 0
    for number in range(times):
        process = subprocess.Popen(command(out, "--resume"))
        # Three methods: kill while the first, the second and the third one trains.
        checkpoints = 1 + 3 * number // times
        kills += kill_after(process, out, checkpoints, moments.uniform(0, 0.3))
    subprocess.run(command(out, "--resume"), check=True, timeout=300)
    assert kills >= min(times, 5)
    whole, killed = trained(tmp_path / "whole"), trained(out)
    assert whole.keys() == killed.keys()
    assert len(whole) == 3
    for name, tensors in whole.items():
        assert same_bits(tensors, killed[name]), name
