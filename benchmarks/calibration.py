"""Calibration and conformal sets at the size of ImageNet, against a pass of metrics.

Made-up logits of shape (5, 50 000, 1000) in float32, as in benchmarks/metrics.py. Every
row is what an ensemble does after training: fit a calibration, or find the limit of
conformal sets and make them, from the ensemble's probabilities. The ratio is to one
pass of all metrics of diversity and calibration, with their values.

    OMP_NUM_THREADS=2 PYTHONPATH=src python3 benchmarks/calibration.py
"""

import argparse
import platform
import time
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from metrics import made_up, streams
from tepui import metrics


class Timer:
    """CPU seconds of pieces of work, which other work beside them changes little."""

    def __init__(self) -> None:
        self.table = Table("what", "seconds", "CPU seconds", "ratio")
        self.unit: float | None = None

    def __call__(self, name: str, work: Callable[[], Any]) -> Any:
        """Do the work and return what it gives; the first is what others compare to."""
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        self.unit = self.unit or cpu
        ratio = f"{cpu / self.unit:.2f}"
        self.table.add_row(name, f"{wall:.2f}", f"{cpu:.2f}", ratio)
        return result


def pass_of_metrics(logits: Tensor, labels: Tensor) -> None:
    together = streams()
    together.update(logits, labels)
    together.compute()


def conformal(logits: Tensor, labels: Tensor, score: metrics.SetScore) -> Tensor:
    probs = metrics.ensemble_probs(logits)
    return metrics.ConformalSets.fit(probs, labels, score=score).sets(probs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--classes", type=int, default=1000)
    options = parser.parse_args()
    logits, labels = made_up(options.members, options.samples, options.classes)
    timed = Timer()
    timed("one pass of the metrics", lambda: pass_of_metrics(logits, labels))
    for method in ("temperature", "vector", "isotonic"):
        fitted = timed(
            f"{method}, fit",
            lambda method=method: metrics.fit_calibration(
                logits, labels, method=method
            ),
        )
        timed(f"{method}, apply", lambda fitted=fitted: fitted.apply(logits))
    for score in ("threshold", "aps", "raps"):
        timed(
            f"{score} sets, fit and made",
            lambda score=score: conformal(logits, labels, score),
        )
    console = Console()
    console.print(timed.table)
    console.print(
        f"torch {torch.__version__}, {platform.machine()}, "
        f"{torch.get_num_threads()} threads"
    )


if __name__ == "__main__":
    main()
