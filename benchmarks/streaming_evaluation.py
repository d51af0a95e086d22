"""Memory of an evaluation: 50 linear members, 20 000 samples, 1000 classes, on a CPU.

Each case runs in a process of its own; what counts is how much its peak of resident
memory grows after ensemble and data are there. All logits in float32 take 4 GB.
"""

import argparse
import subprocess
import sys
import time
import warnings
from pathlib import Path

import torch
from torch import nn

import tepui

CASES = ("scores", "scores and detection")
FEATURES = 64


def peak() -> int:
    """Return the most bytes that this process held; not those of whoever started it."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def measure(case: str, members: int, samples: int, classes: int, batch: int) -> None:
    """Evaluate once, and print bytes beyond weights and data, and seconds."""
    warnings.simplefilter("ignore")
    make = lambda: nn.Linear(FEATURES, classes)  # noqa: E731
    ensemble = tepui.Ensemble.build(make, members)
    stream = torch.Generator().manual_seed(0)
    inputs = torch.randn(samples, FEATURES, generator=stream)
    labels = torch.randint(0, classes, (samples,), generator=stream)
    data = tepui.data.Arrays(inputs, labels)
    tepui.evaluate(ensemble, data.subset(range(2)))  # whatever the first call loads
    ood = {"other": data.subset(range(samples // 2))} if "detection" in case else None
    before, start = peak(), time.perf_counter()
    tepui.evaluate(ensemble, data, ood=ood, batch_size=batch)
    print(peak() - before, time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=50)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--case", choices=CASES)
    options = parser.parse_args()
    sizes = options.members, options.samples, options.classes, options.batch
    if options.case:
        measure(options.case, *sizes)
        return
    print("| case | beyond weights and data, MB | seconds |")
    print("|---|---:|---:|")
    for case in CASES:
        command = [sys.executable, __file__, "--case", case]
        for name in ("members", "samples", "classes", "batch"):
            command += [f"--{name}", str(getattr(options, name))]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        grown, seconds = map(float, done.stdout.split())
        print(f"| {case} | {grown / 1e6:.0f} | {seconds:.0f} |")


if __name__ == "__main__":
    main()
