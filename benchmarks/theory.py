"""What the theory costs: a moment against the printed sum, and all five figures.

PYTHONPATH=src python3 benchmarks/theory.py [--figures FOLDER]
"""

import argparse
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from tepui.recipes import sharpbalance_theory
from tepui.theory import phi, phi_exact, phi_multinomial

ETA, RATIO = 0.01, 20.0
FIGURES = ("figure1b", "figure2", "figure9", "figure10", "figure11")


def best_of(run: Callable[[], object], times: int) -> float:
    """Return the shortest of several runs, in seconds."""
    durations = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        durations.append(time.perf_counter() - began)
    return min(durations)


def moments(console: Console) -> None:
    rho = np.linspace(0.0, 0.19, 200)
    table = Table(title="phi(2k, 0), eta 0.01, ratio 20")
    for title in ("how", "k", "values", "seconds in all", "µs per value", "ratio"):
        table.add_column(title, justify="right")
    ways: list[tuple[str, int, int, Callable[[], object], int]] = [
        ("quadrature", 20, 200, lambda: phi(40, 0, eta=ETA, rho=rho, ratio=RATIO), 20),
        (
            "quadrature",
            100,
            200,
            lambda: phi(200, 0, eta=ETA, rho=rho, ratio=RATIO),
            20,
        ),
        (
            "printed sum, float64",
            20,
            1,
            lambda: phi_multinomial(40, 0, eta=ETA, rho=0.1, ratio=RATIO),
            5,
        ),
        (
            "rational arithmetic",
            20,
            1,
            lambda: phi_exact(40, 0, eta=ETA, rho=0.1, ratio=RATIO),
            5,
        ),
    ]
    first = None
    for name, k, values, run, times in ways:
        seconds = best_of(run, times)
        each = seconds / values
        first = first or each
        cells = (f"{seconds:.4f}", f"{1e6 * each:.1f}", f"{each / first:.0f}")
        table.add_row(name, str(k), str(values), *cells)
    console.print(table)


def figures(console: Console, folder: Path) -> None:
    table = Table(title="figures, 50 matrices of 3000 x 150")
    table.add_column("figure")
    table.add_column("seconds", justify="right")
    total = 0.0
    for name in FIGURES:
        began = time.perf_counter()
        getattr(sharpbalance_theory, name)(folder, overwrite=True)
        seconds = time.perf_counter() - began
        total += seconds
        table.add_row(name, f"{seconds:.1f}")
    table.add_row("all", f"{total:.1f}")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", type=Path, help="where the figures go")
    folder = parser.parse_args().figures
    console = Console(width=100)
    console.print(
        f"{platform.machine()}, {os.cpu_count()} cores, "
        f"{torch.get_num_threads()} threads, numpy {np.__version__}, "
        f"torch {torch.__version__}"
    )
    moments(console)
    if folder:
        figures(console, folder)


if __name__ == "__main__":
    main()
