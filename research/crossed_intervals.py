"""Simulate how often an interval over seeds and test samples covers the difference.

python research/crossed_intervals.py cuda
"""

import json
import math
import sys
from itertools import product
from pathlib import Path
from statistics import NormalDist

import torch
from scipy import stats
from torch import Tensor

from tepui.studies.significance import crossed_errors

SEEDS, SAMPLES = (2, 3, 5, 12), (100, 300, 3_000, 30_000)
# Accuracy; its standard deviation over seeds, in points; share of a margin's variance
# that belongs to method and sample whatever the seed.
SETTINGS = (
    *((0.6, 1.0, 0.05), (0.9, 0.0, 0.0), (0.9, 0.3, 0.05), (0.9, 1.0, 0.05)),
    *((0.9, 3.0, 0.0), (0.98, 0.3, 0.05), (0.98, 0.1, 0.0)),
)
GAIN = 0.05  # of the second method, in standard deviations of a margin
NOISE = 0.15  # share: method, sample, and seed; the rest is the same for all
ROUNDS = 2000
FILE = Path(__file__).with_suffix(".jsonl")
NORMAL = NormalDist()
Size = tuple[int, int]  # seeds and samples
Setting = tuple[float, float, float]


def differences(
    size: Size, setting: Setting, rounds: int, device: str
) -> tuple[Tensor, float]:
    """Return what two methods differ by, sample by sample, and the true mean.

    A sample is right if its margin is positive: a level, less how hard the sample is
    for all and for a method, plus what a seed changes everywhere and at this sample.

    Returns:
        Differences of right answers, ``(rounds, seeds, samples)``, and their mean over
        all seeds and samples that there could be.
    """
    (seeds, samples), (accuracy, spread, own) = size, setting
    level = NORMAL.inv_cdf(accuracy)
    by_seed = spread / 100 / NORMAL.pdf(level)
    draw = {"device": device}
    hard = math.sqrt(1 - own - NOISE) * torch.randn(rounds, 1, samples, **draw)
    right, shares = [], []
    for gain in (0.0, GAIN):
        margin = level + gain + hard
        margin = margin + math.sqrt(own) * torch.randn(rounds, 1, samples, **draw)
        margin = margin + by_seed * torch.randn(rounds, seeds, 1, **draw)
        noise = math.sqrt(NOISE) * torch.randn(rounds, seeds, samples, **draw)
        right.append((margin + noise > 0).float())
        shares.append(NORMAL.cdf((level + gain) / math.hypot(1, by_seed)))
    return right[1] - right[0], shares[1] - shares[0]


def coverages(size: Size, setting: Setting, device: str) -> dict[str, float]:
    """Return how often two intervals of 95 % hold the true difference."""
    over_seeds, over_samples = (float(stats.t.isf(0.025, n - 1)) for n in size)
    held = {"crossed": 0, "seeds": 0}
    for rounds in torch.arange(ROUNDS).split(max(1, 2**22 // math.prod(size))):
        values, true = differences(size, setting, len(rounds), device)
        first, second = crossed_errors(values)
        missed, reach = (values.mean((1, 2)) - true).abs(), over_seeds * first
        held["crossed"] += int((missed <= reach.hypot(over_samples * second)).sum())
        held["seeds"] += int((missed <= reach).sum())
    return {name: round(count / ROUNDS, 4) for name, count in held.items()}


def main() -> None:
    """Simulate every setting and write a line for each."""
    device = sys.argv[1] if sys.argv[1:] else "cpu"
    torch.manual_seed(0)
    lines = []
    names = "seeds", "samples", "accuracy", "points", "own"
    for size, kind in product(product(SEEDS, SAMPLES), SETTINGS):
        found = coverages(size, kind, device)
        about = dict(zip(names, (*size, *kind), strict=True))
        lines.append(json.dumps({**about, "rounds": ROUNDS, "covers": found}))
    FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
