"""What a moment costs against the printed sum, and the tables of docs/theory.md.

PYTHONPATH=src python3 benchmarks/theory.py [--tables]
"""

import argparse
import os
import platform
import time
from collections.abc import Callable

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from tepui.theory import (
    Setting,
    eta_at_sharpness,
    largest_stable_rho,
    phi,
    phi_exact,
    phi_multinomial,
    simulate_sam,
    simulate_subset_constant,
    subset_constant,
    theorem1,
    theorem2,
)

ETA, RATIO = 0.01, 20.0
PAPER = Setting(rho0=0.01, n=3000, d=150, sigma2=0.1, theta_norm=15**0.5)


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


def bounds(console: Console) -> None:
    rho = np.array([0.02, 0.1, 0.3, 0.5])
    seen = simulate_sam(PAPER, 3, eta=ETA, rho=rho)
    gaps = ("haar", "cauchy_schwarz", "notebook", "paper")
    said = [theorem1(PAPER, 3, eta=ETA, rho=rho, gap=gap) for gap in gaps]
    table = Table(title="sharpness, k 3, 50 matrices")
    for title in ("rho", "simulated", "upper", *gaps):
        table.add_column(title, justify="right")
    for row, radius in enumerate(rho):
        lower = [f"{each.sharpness_lower[row]:.4f}" for each in said]
        simulated = f"{seen.sharpness[row]:.4f} ± {seen.sharpness_error[row]:.4f}"
        upper = f"{said[0].sharpness_upper[row]:.4f}"
        table.add_row(f"{radius}", simulated, upper, *lower)
    console.print(table)


def constants(console: Console) -> None:
    table = Table(title="C of Theorem 2, 50 matrices")
    for title in ("n, d, S, k, eta, rho", "simulated", "limit", "order 1/d", "printed"):
        table.add_column(title, justify="right")
    for n, d, S, k, eta, rho in (
        (3000, 150, 10, 5, 0.01, 1.0),
        (3000, 150, 10, 5, 0.01, 0.4),
        (3000, 150, 10, 14, 0.01, 0.4),
        (1200, 60, 3, 4, 0.02, 0.1),
    ):
        point = {"k": k, "eta": eta, "rho": rho, "subsets": S}
        mean, error = simulate_subset_constant(n=n, d=d, **point)
        forms = [
            subset_constant(ratio=n / d, **point),
            subset_constant(ratio=n / d, d=d, **point),
            subset_constant(ratio=n / d, constant="printed", **point),
        ]
        case = ", ".join(str(value) for value in (n, d, S, k, eta, rho))
        cells = [f"{float(form):.2f}" for form in forms]
        table.add_row(case, f"{float(mean):.2f} ± {float(error):.2f}", *cells)
    console.print(table)


def matched(console: Console) -> None:
    wanted = np.array([0.75, 0.7, 0.6, 0.5, 0.4, 0.3])
    table = Table(title="diversity at equal sharpness, k 3, S 10")
    for title in ("sharpness", "rho", "SAM", "on blocks", "gain in %"):
        table.add_column(title, justify="right")
    for rho in (0.4, 0.0):
        whole, blocks = (
            theorem2(
                PAPER,
                3,
                eta=eta_at_sharpness(PAPER, wanted, 3, rho=rho, subsets=S),
                rho=rho,
                subsets=S,
            ).diversity
            for S in (1, 10)
        )
        for row in zip(wanted, whole, blocks, strict=True):
            gain = 100 * (row[2] / row[1] - 1)
            table.add_row(
                *f"{row[0]} {rho} {row[1]:.4f} {row[2]:.4f} {gain:.1f}".split()
            )
    console.print(table)


def published(console: Console) -> None:
    """Figure 1b's SharpBalance against SAM as drawn there, and against stable SAM."""
    rho = np.array([1.5, 1.0, 0.5, 0.01])
    blocks = theorem2(PAPER, 3, eta=ETA, rho=rho, subsets=10)
    drawn = theorem1(PAPER, 3, eta=ETA, rho=np.linspace(0.24, 0.255, 200))
    there = np.interp(blocks.sharpness_upper, drawn.sharpness_upper, drawn.diversity)
    eta = eta_at_sharpness(PAPER, blocks.sharpness_upper, 3, rho=0.05)
    here = theorem1(PAPER, 3, eta=eta, rho=0.05).diversity
    table = Table(title="gain of figure 1b's SharpBalance over SAM of equal sharpness")
    for title in ("rho", "sharpness", "divergent SAM, %", "stable SAM, rho 0.05, %"):
        table.add_column(title, justify="right")
    for row, radius in enumerate(rho):
        gains = [100 * (blocks.diversity[row] / d[row] - 1) for d in (there, here)]
        sharpness = blocks.sharpness_upper[row]
        within = sharpness >= drawn.sharpness_upper[0]
        shown = f"{gains[0]:.0f}" if within else "not drawn"
        table.add_row(f"{radius}", f"{sharpness:.3f}", shown, f"{gains[1]:.1f}")
    console.print(table)


def deviations(console: Console) -> None:
    """The limit and its correction beside simulation, in standard errors."""
    limit = float(largest_stable_rho(ETA, RATIO))
    k, eta, share = np.meshgrid([1, 3, 10], [0.002, 0.01], [0, 0.4, 0.8, 1])
    radii = np.linspace(0.5, 0.3, 20)
    radii = radii[radii <= largest_stable_rho(0.1, RATIO / 10)]
    cases = {
        "Theorem 1, grid": (k, eta, share * largest_stable_rho(eta, RATIO), 1),
        "figure 2, stable": (3, ETA, np.linspace(limit, 0, 20), 1),
        "figure 11, stable, k 4": (4, 0.1, radii, 10),
        "figure 11, stable, k 8": (8, 0.1, radii, 10),
        "figure 11, stable, k 12": (12, 0.1, radii, 10),
    }
    table = Table(title="largest deviations in standard errors, 50 matrices")
    table.add_column("where")
    titles = ("D, limit", "in %", "D, order 1/d", "over the limit's bound", "in %")
    for title in titles:
        table.add_column(title, justify="right")
    for name, (k, eta, rho, subsets) in cases.items():
        options = {"eta": eta, "rho": rho, "subsets": subsets}
        seen = simulate_sam(PAPER, k, **options)
        forms = [
            theorem2(PAPER, k, finite_size=size, **options) for size in (False, True)
        ]
        off, still_off = (np.abs(seen.diversity - form.diversity) for form in forms)
        over = seen.sharpness - forms[0].sharpness_upper
        cells = (
            off / seen.diversity_error,
            100 * off / forms[0].diversity,
            still_off / seen.diversity_error,
            over / seen.sharpness_error,
            100 * over / forms[0].sharpness_upper,
        )
        table.add_row(name, *(f"{cell.max():.1f}" for cell in cells))
    console.print(table)


def limits_of_the_correction(console: Console) -> None:
    """Where Theorem 2 with order 1/d still misses, four seeds of 60 matrices each."""
    table = Table(title="where order 1/d misses, S 10, 60 matrices a seed")
    for title in ("quantity", "k, eta, rho", "seed", "theory", "simulated", "in SE"):
        table.add_column(title, justify="right")

    def add(name: str, case: str, seed: str, said: float, mean: float, error: float):
        shown = f"{mean:.5g} ± {error:.2g}"
        score = f"{(mean - said) / error:.1f}"
        table.add_row(name, case, seed, f"{said:.5g}", shown, score)

    options = {"eta": 0.1, "rho": 0.416, "subsets": 10}
    said = float(theorem2(PAPER, 12, finite_size=True, **options).diversity)
    for seed in range(4):
        seen = simulate_sam(PAPER, 12, matrices=60, seed=seed, **options)
        found = float(seen.diversity), float(seen.diversity_error)
        add("D", "12, 0.1, 0.416", str(seed), said, *found)
    point = {"k": 10, "eta": 0.1716, "rho": 0.1544, "subsets": 10}
    said = float(subset_constant(ratio=RATIO, d=150, **point))
    drawn = [
        simulate_subset_constant(n=3000, d=150, matrices=60, seed=seed, **point)
        for seed in range(4)
    ]
    mean = float(np.mean([value for value, _ in drawn]))
    error = float(np.linalg.norm([each for _, each in drawn]) / len(drawn))
    add("C", "10, 0.1716, 0.1544", "0 to 3", said, mean, error)
    console.print(table)


def stability(console: Console) -> None:
    table = Table(title="largest stable rho")
    for title in ("R or r", "eta", "rho"):
        table.add_column(title, justify="right")
    for ratio, etas in ((20.0, (0.1, 0.05, 0.01)), (2.0, (0.5, 0.3, 0.1, 0.01))):
        for eta, rho in zip(etas, largest_stable_rho(etas, ratio), strict=True):
            shown = "none" if np.isnan(rho) else f"{rho:.3f}"
            table.add_row(f"{ratio:g}", f"{eta}", shown)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", action="store_true", help="numbers of the page")
    chosen = parser.parse_args()
    console = Console(width=100)
    console.print(
        f"{platform.machine()}, {os.cpu_count()} cores, "
        f"{torch.get_num_threads()} threads, numpy {np.__version__}, "
        f"torch {torch.__version__}"
    )
    moments(console)
    if chosen.tables:
        for table in (
            bounds,
            constants,
            deviations,
            limits_of_the_correction,
            stability,
            matched,
            published,
        ):
            table(console)


if __name__ == "__main__":
    main()
