"""Training from a 2 GB array file on disk against the same data in memory, on a CPU.

The file holds random images of 3 x 32 x 32 bytes. Both train the same small network on
the same samples, drawn from all over the file, one after the other in the same process,
again and again; what counts is the ratio of the medians. Resident memory is that of a
process of its own which trains from the file alone. The file has just been written, so
that it is in the operating system's cache as far as that has room.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import tepui
from tepui.data import Arrays, ArraysOnDisk
from tepui.methods import DeepEnsemble
from tepui.models import ConvNet

SHAPE = (3, 32, 32)
BATCH = 128


def write(folder: Path, samples: int) -> None:
    random = np.random.default_rng(0)
    with (folder / "x.npy").open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": (samples, *SHAPE)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, samples, 2**14):
            rows = min(2**14, samples - start)
            file.write(random.integers(0, 256, (rows, *SHAPE), dtype=np.uint8).data)
    np.save(folder / "y.npy", np.arange(samples) % 10)


def seconds(data: Arrays | ArraysOnDisk, width: int) -> float:
    """Train for an epoch and return how long its steps took."""
    ensemble = tepui.Ensemble.build(lambda: ConvNet(10, 3, width), members=1)
    how = {"epochs": 1, "batch_size": BATCH, "device": "cpu", "progress": "none"}
    run = tepui.fit(ensemble, data, method=DeepEnsemble(), **how)
    return run.history[0].seconds


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def grown(data: ArraysOnDisk, steps: int) -> int:
    """Return by how much resident memory grows from a short run to a long one."""
    seconds(data.subset(torch.randperm(len(data))[: 4 * BATCH]), 4)
    before = peak()
    seconds(data.subset(torch.randperm(len(data))[: steps * BATCH]), 4)
    return peak() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=700_000)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--width", type=int, default=4)
    parser.add_argument("--grown", type=Path, help="only measure a folder's memory")
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.grown:
        data = ArraysOnDisk(options.grown / "x.npy", options.grown / "y.npy")
        print(grown(data, options.steps * 4))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, options.samples)
        command = [sys.executable, __file__, "--grown", name]
        command += ["--steps", str(options.steps)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        on_disk = ArraysOnDisk(folder / "x.npy", folder / "y.npy")
        in_memory = on_disk.load()
        rows = torch.randperm(options.samples)[: options.steps * BATCH]
        pairs = [
            [seconds(data.subset(rows), options.width) for data in (in_memory, on_disk)]
            for _ in range(options.times)
        ]
        size = (folder / "x.npy").stat().st_size
    memory, disk = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(
        "| file, GB | in memory, ms a step | on disk, ms a step | ratio | growth, MB |"
    )
    print("|---:|---:|---:|---:|---:|")
    steps = [1000 * value / options.steps for value in (memory, disk)]
    numbers = f"{steps[0]:.1f} | {steps[1]:.1f} | {disk / memory:.3f}"
    print(f"| {size / 1e9:.2f} | {numbers} | {float(done.stdout) / 1e6:.0f} |")
    print("pairs:", [f"{second / first:.3f}" for first, second in pairs])


if __name__ == "__main__":
    main()
