"""The convolutions of ResNet-18 on a CPU: oneDNN's, NNPACK's and torch's own.

Milliseconds of a forward and a backward pass over a batch of 128, all three in turn in
one process, the median of the rounds. Which of them a run uses is said by the option
`cpu_kernels` of `tepui.fit`. Needs torch and rich only:

    OMP_NUM_THREADS=1 PYTHONPATH=src python3 benchmarks/convolutions.py
"""

import argparse
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from statistics import median

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor

from tepui.training.numerics import computing_with

BATCH = 128


class ByNNPACK(AbstractContextManager):
    """Torch's choice where it cannot use oneDNN."""

    def __enter__(self) -> None:
        self.kept = torch.backends.mkldnn.enabled
        torch.backends.mkldnn.enabled = False

    def __exit__(self, *error: object) -> None:
        torch.backends.mkldnn.enabled = self.kept


KERNELS: dict[str, Callable[[], AbstractContextManager]] = {
    "oneDNN": lambda: computing_with("onednn"),
    "NNPACK": ByNNPACK,
    "native": lambda: computing_with("native"),
}


def shapes(width: int, pixels: int) -> list[tuple[int, int, int, int, int]]:
    """Return input and output channels, pixels, kernel and stride of each kind."""
    stages = [(width * 2**n, pixels // 2**n) for n in range(4)]
    plain = [(channels, channels, side, 3, 1) for channels, side in stages]
    second = [(width, 2 * width, pixels, kernel, 2) for kernel in (3, 1)]
    return [(3, width, pixels, 3, 1), *plain, *second]


def passes(channels: int, out: int, pixels: int, kernel: int, stride: int):
    x = torch.randn(BATCH, channels, pixels, pixels, requires_grad=True)
    weight = torch.randn(out, channels, kernel, kernel, requires_grad=True)

    def run() -> tuple[Tensor, ...]:
        y = F.conv2d(x, weight, stride=stride, padding=kernel // 2)
        return torch.autograd.grad(y, (x, weight), torch.ones_like(y))

    return run


def measure(run: Callable[[], object], rounds: int) -> dict[str, float]:
    """Return the median of each kernel's milliseconds."""
    times: dict[str, list[float]] = {name: [] for name in KERNELS}
    for _ in range(rounds + 1):
        for name, using in KERNELS.items():
            with using():
                started = time.perf_counter()
                run()
                times[name].append(1e3 * (time.perf_counter() - started))
    return {name: median(values[1:]) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widths", type=int, nargs="+", default=[8, 16, 64])
    parser.add_argument("--pixels", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    table = Table(title=f"threads: {arguments.threads}, torch {torch.__version__}")
    for heading in ("convolution", *KERNELS, "oneDNN / native"):
        table.add_column(heading, justify="right")
    for width in arguments.widths:
        for shape in shapes(width, arguments.pixels):
            found = measure(passes(*shape), arguments.rounds)
            channels, out, pixels, kernel, stride = shape
            name = f"{channels} to {out}, {pixels} px, {kernel}x{kernel} / {stride}"
            ratio = found["oneDNN"] / found["native"]
            cells = [f"{value:.1f}" for value in found.values()]
            table.add_row(name, *cells, f"{ratio:.2f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
