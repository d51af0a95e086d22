"""What an evaluation takes in memory is what was reckoned, or less."""

import subprocess
import sys
from pathlib import Path

import pytest

from tepui.evaluation import evaluation_memory

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "streaming_evaluation.py"
GB = 10**9
# DeiT-3 Base: two blocks and the head of each member; features are 197 tokens of 768.
BLOCK, HEAD, TOKENS, WIDTH = 7_087_872, 769_000, 197, 768
HEADS = {
    "members": 50,
    "classes": 1000,
    "batch_size": 1024,
    "sample_bytes": 4 * TOKENS * WIDTH,
    "weight_bytes": 50 * 4 * (2 * BLOCK + HEAD),
    # A block's widest moment: the hidden layer of its MLP before and after the bend,
    # beside the tokens that go around it.
    "activation_bytes": 4 * TOKENS * WIDTH * (4 + 4 + 3),
}


def test_fifty_heads_on_imagenet_c_fit():
    price = evaluation_memory(samples=50_000, ood_samples=1_500_000, **HEADS)
    assert price.device < 24 * GB
    assert price.host < 8 * GB


def test_only_what_is_ranked_grows_with_the_samples():
    few, many = (
        evaluation_memory(members=5, samples=n, classes=10) for n in (10**6, 10**7)
    )
    # Seven scores by which mistakes are ranked, and room to sort them.
    assert many.device - few.device == 2 * 7 * 4 * (10**7 - 10**6)
    assert many.host - few.host == 8 * (10**7 - 10**6)
    ranked = evaluation_memory(members=5, samples=10**6, classes=10, ood_samples=10)
    assert 0 < ranked.device - few.device < 1000
    own = evaluation_memory(members=5, samples=10**6, classes=10, own_metrics=True)
    assert own.device - few.device == 2 * 4 * 5 * 10 * 10**6


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"members": 0}, "members must be positive, got 0"),
        ({"samples": -1}, "samples must not be negative, got -1"),
        ({"batch_size": 0}, "batch_size must be positive"),
    ],
)
def test_bad_sizes_are_named(sizes, message):
    with pytest.raises(ValueError, match=message):
        evaluation_memory(**{"members": 1, "samples": 1, "classes": 2, **sizes})


def test_a_process_takes_no_more_than_was_reckoned():
    sizes = {"members": 20, "samples": 1500, "classes": 1000, "batch": 512}
    command = [sys.executable, str(BENCHMARK), "--case", "scores and detection"]
    for name, size in sizes.items():
        command += [f"--{name}", str(size)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    taken = float(done.stdout.split()[0])
    batch_size = sizes.pop("batch")
    reckoned = sum(
        evaluation_memory(
            **sizes, batch_size=batch_size, sample_bytes=256, ood_samples=750
        )
    )
    # Not all of the reckoned, since allocations of small tensors are reused.
    assert 0.3 * reckoned < taken < reckoned + 50 * 10**6
