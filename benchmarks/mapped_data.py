"""Training from a 2 GB array file on disk against the same data in memory, on a CPU.

The file holds random images of 3 x 32 x 32 bytes. Both train the same small network on
the same samples, drawn from all over the file, one after the other in the same process,
again and again; what counts is the ratio of the medians. Processor time counts the
reading thread too, and is the number to trust where other work shares the machine; with
a processor to spare the thread costs no time at all. Resident memory is that of a
process of its own which trains from the file alone. The file has just been written, so
that it is in the operating system's cache as far as that has room.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
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


def seconds(data: Arrays | ArraysOnDisk, width: int) -> tuple[float, float]:
    """Train for an epoch; return its time by the clock and by the processor."""
    ensemble = tepui.Ensemble.build(lambda: ConvNet(10, 3, width), members=1)
    how = {"epochs": 1, "batch_size": BATCH, "device": "cpu", "progress": "none"}
    before = time.process_time()
    run = tepui.fit(ensemble, data, method=DeepEnsemble(), **how)
    return run.history[0].seconds, time.process_time() - before


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
    print(
        f"file of {size / 1e9:.2f} GB; memory grew by {float(done.stdout) / 1e6:.0f} MB"
    )
    print("| time | memory, ms a step | disk, ms a step | ratio |")
    print("|---|---:|---:|---:|")
    for kind, name in enumerate(("clock", "processor")):
        runs = [[times[kind] for times in pair] for pair in pairs]
        memory, disk = map(statistics.median, zip(*runs, strict=True))
        steps = [1000 * value / options.steps for value in (memory, disk)]
        ratio = disk / memory
        print(f"| {name} | {steps[0]:.1f} | {steps[1]:.1f} | {ratio:.3f} |")


if __name__ == "__main__":
    main()
