"""Every metric of logits at the size of ImageNet: time and memory.

Made-up logits of shape (5, 50 000, 1000) in float32, one gigabyte: what an ensemble of
five gives for the validation images of ImageNet. Two halves of the samples stand for
familiar and unfamiliar ones. Curves over sub-ensembles are left out: they repeat one
metric. With --separately, every function is called by itself instead.

    OMP_NUM_THREADS=2 PYTHONPATH=src python3 benchmarks/metrics.py
"""

import argparse
import platform
import resource
import time
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from tepui import metrics

RULES = ("probability", "logit", "vote")


def made_up(members: int, samples: int, classes: int) -> tuple[Tensor, Tensor]:
    """Logits that are right for about three quarters of the samples."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(members, samples, classes, generator=generator)
    labels = torch.randint(classes, (samples,), generator=generator)
    height = 4 + 3 * torch.randn(samples, 1, generator=generator)
    for member in logits:
        member.scatter_add_(1, labels[:, None], height)
    return logits, labels


def streams() -> metrics.Collection:
    return metrics.Collection(
        individual_accuracy=metrics.IndividualAccuracy(),
        variance_logits=metrics.LogitVariance(),
        variance_probs=metrics.ProbabilityVariance(),
        pairwise_disagreement=metrics.PairwiseDisagreement(),
        disagreement=metrics.Disagreement(),
        der=metrics.DER(),
        pairwise_kl=metrics.PairwiseKL(),
        kl=metrics.MeanKL(),
        kl_symmetric=metrics.MeanKL(symmetric=True),
        unique_predictions=metrics.UniquePredictions(),
        **{f"accuracy_{rule}": metrics.Accuracy(rule=rule) for rule in RULES},
        **{f"eir_{rule}": metrics.EIR(rule=rule) for rule in RULES},
        nll=metrics.NLL(),
        brier=metrics.Brier(),
        reliability=metrics.ReliabilityDiagram(),
        ece=metrics.ECE(),
        ece_torchmetrics=metrics.ECE(torchmetrics_bins=True),
        ece_mass=metrics.ECE(binning="equal_mass"),
        selective_curve=metrics.SelectiveCurve(),
        aurc=metrics.AURC(),
    )


def separately() -> dict[str, Callable[[Tensor, Tensor], object]]:
    """Every function that a stream of the collection belongs to."""
    m = metrics
    return {
        "individual_accuracy": m.individual_accuracy,
        "variance of logits": lambda x, y: m.logit_variance(x),
        "variance of probs": lambda x, y: m.probability_variance(x),
        "disagreement": lambda x, y: m.disagreement(x),
        "der": m.der,
        "kl": lambda x, y: m.mean_kl(x),
        "unique_predictions": lambda x, y: m.unique_predictions(x),
        **{f"eir, {rule}": lambda x, y, r=rule: m.eir(x, y, rule=r) for rule in RULES},
        "nll": m.nll,
        "reliability": m.reliability,
        "ece": m.ece,
        "ece, equal mass": lambda x, y: m.ece(x, y, binning="equal_mass"),
        "aurc": m.aurc,
    }


class Timer:
    """Times pieces of work and keeps a table of them."""

    def __init__(self) -> None:
        self.table = Table("what", "seconds", "CPU seconds")
        self.wall = self.cpu = 0.0

    def __call__(self, name: str, work: Callable[[], Any]) -> Any:
        """Do the work and return what it gives."""
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        self.wall, self.cpu = self.wall + wall, self.cpu + cpu
        self.table.add_row(name, f"{wall:.2f}", f"{cpu:.2f}")
        return result


def detection(scores: dict[str, Tensor]) -> list[Tensor]:
    found = []
    for values in scores.values():
        pair = values.chunk(2)
        found.append(metrics.auroc(*pair))
        for positive in ("ood", "in"):
            found.append(metrics.aupr(*pair, positive=positive))
            found.append(metrics.fpr95(*pair, positive=positive))
    return found


def peak_gigabytes() -> float:
    # Linux counts in kilobytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--separately", action="store_true")
    options = parser.parse_args()
    logits, labels = made_up(options.members, options.samples, options.classes)
    before, timed, together = peak_gigabytes(), Timer(), streams()
    if options.separately:
        for name, metric in separately().items():
            timed(name, lambda metric=metric: metric(logits, labels))
    else:
        timed(
            "diversity, calibration: one pass", lambda: together.update(logits, labels)
        )
        timed("their values", together.compute)
    scores = timed("seven OOD scores: one pass", lambda: metrics.ood_scores(logits))
    timed("AUROC, both AUPR, both FPR95 of each", lambda: detection(scores))
    pair = scores["pds"], scores["entropy"]
    timed("rank correlation of two", lambda: metrics.rank_correlation(*pair))
    timed("temperature", lambda: metrics.temperature(logits, labels))
    timed.table.add_row("all", f"{timed.wall:.2f}", f"{timed.cpu:.2f}")
    console = Console()
    console.print(timed.table)
    console.print(
        f"peak memory {peak_gigabytes():.2f} GB, {before:.2f} GB of it before the "
        f"metrics; torch {torch.__version__}, {platform.machine()}, "
        f"{torch.get_num_threads()} threads"
    )


if __name__ == "__main__":
    main()
