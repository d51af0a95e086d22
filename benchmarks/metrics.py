"""Every metric of logits at the size of ImageNet: time and memory.

Logits of shape (5, 50 000, 1000) in float32, one gigabyte, as a trained ensemble of five
gives for the validation images of ImageNet; and as many unfamiliar samples again, in the
same memory. Ensemble-size curves are left out: they repeat one metric.

    OMP_NUM_THREADS=2 PYTHONPATH=src python3 benchmarks/metrics.py
"""

import argparse
import platform
import resource
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table

from tepui import metrics

RULES = ("probability", "logit", "vote")


def made_up(members: int, samples: int, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
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
        variance_logits=metrics.Variance(),
        variance_probs=metrics.Variance("probs"),
        pairwise_disagreement=metrics.PairwiseDisagreement(),
        disagreement=metrics.Disagreement(),
        der=metrics.DER(),
        pairwise_kl=metrics.PairwiseKL(),
        kl=metrics.KL(),
        kl_symmetric=metrics.KL(symmetric=True),
        unique_predictions=metrics.UniquePredictions(),
        **{f"accuracy_{rule}": metrics.Accuracy(rule) for rule in RULES},
        **{f"eir_{rule}": metrics.EIR(rule) for rule in RULES},
        nll=metrics.NLL(),
        brier_decomposition=metrics.BrierDecomposition(),
        brier=metrics.Brier(),
        reliability=metrics.ReliabilityDiagram(),
        mce=metrics.MCE(),
        ece=metrics.ECE(),
        ece_torchmetrics=metrics.ECE(torchmetrics_bins=True),
        ece_mass=metrics.ECE(binning="equal-mass"),
        ece_classes=metrics.ECE(of="classwise"),
        ece_classes_mass=metrics.ECE(of="classwise", binning="equal-mass"),
        selective_curve=metrics.SelectiveCurve(),
        aurc=metrics.AURC(),
    )


def peak_gigabytes() -> float:
    # Linux counts in kilobytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--classes", type=int, default=1000)
    sizes = parser.parse_args()
    logits, labels = made_up(sizes.members, sizes.samples, sizes.classes)
    start_memory = peak_gigabytes()
    table = Table("what", "seconds")
    total = 0.0

    def timed(name: str, work: Callable[[], object]) -> object:
        nonlocal total
        start = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - start
        total += seconds
        table.add_row(name, f"{seconds:.2f}")
        return result

    together = streams()
    timed("one pass: diversity and calibration", lambda: together.update(logits, labels))
    found = timed("their values", together.compute)
    scores = timed("seven OOD scores", lambda: metrics.ood_scores(logits))
    # The samples of which the ensemble is sure and unsure stand for two data sets.
    half = sizes.samples // 2
    for name, values in scores.items():
        pair = values[:half], values[half:]
        timed(
            f"AUROC, 2 AUPR, 2 FPR95 of {name}",
            lambda pair=pair: [
                metrics.auroc(*pair),
                *(metrics.aupr(*pair, each) for each in ("ood", "in")),
                *(metrics.fpr95(*pair, each) for each in ("ood", "in")),
            ],
        )
    timed(
        "rank correlation of two scores",
        lambda: metrics.rank_correlation(scores["pds"], scores["entropy"]),
    )
    best = timed("temperature", lambda: metrics.temperature(logits, labels))
    table.add_row("all", f"{total:.2f}")
    console = Console()
    console.print(table)
    console.print(
        f"peak memory {peak_gigabytes():.2f} GB, {start_memory:.2f} GB of it before the "
        f"metrics; torch {torch.__version__}, {platform.machine()}, "
        f"{torch.get_num_threads()} threads"
    )
    console.print(
        f"accuracy {float(found['accuracy_probability']):.3f}, "
        f"ECE {float(found['ece']):.3f}, temperature {float(best):.3f}"
    )


if __name__ == "__main__":
    main()
