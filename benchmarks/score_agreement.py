"""Do other scores rank samples as the Fisher trace does?

Three ConvNets on digits, six epochs of SAM each; Spearman's rank correlation of every
score with the Fisher trace over all 1437 training samples, and the share of the highest
and of the lowest 40 % that both have in common.

    PYTHONPATH=src python3 benchmarks/score_agreement.py
"""

import torch
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

import tepui
from tepui.data import Digits
from tepui.methods import SAM
from tepui.models import ConvNet
from tepui.sharpness import (
    sample_fisher_trace,
    sample_hessian_trace,
    sample_sam_gap,
    sample_worst_case_gap,
)
from tepui.studies import estimate

RHO = 0.1


def scores(model, data) -> dict[str, torch.Tensor]:
    stream = torch.Generator().manual_seed(0)
    return {
        "worst_case": sample_worst_case_gap(model, data, rho=RHO),
        "sam_gap": sample_sam_gap(model, data, rho=RHO),
        "hessian_trace": sample_hessian_trace(
            model, data, generator=stream, num_probes=50
        ),
        "loss": losses(model, data),
    }


def losses(model, data) -> torch.Tensor:
    with torch.no_grad():
        outputs = model.eval()(data.prepare(data.inputs))
    return tepui.losses.cross_entropy(outputs, data.targets)


def common(first: torch.Tensor, second: torch.Tensor, *, highest: bool) -> float:
    """Return the share of the extreme 40 % of one score that are so by another."""
    count = int(0.4 * len(first))
    ends = [values.argsort(descending=highest)[:count] for values in (first, second)]
    both = set(ends[0].tolist()) & set(ends[1].tolist())
    return len(both) / count


def main() -> None:
    data = Digits()
    ensemble = tepui.Ensemble.build(ConvNet, members=3, seed=13)
    schedule = tepui.MultiStep()
    tepui.fit(ensemble, data, method=SAM(rho=RHO), epochs=6, schedule=schedule)
    found: dict[str, list[tuple[float, ...]]] = {}
    for model in ensemble.members:
        fisher = sample_fisher_trace(model, data)
        for name, values in scores(model, data).items():
            rank = float(spearmanr(fisher.numpy(), values.numpy()).statistic)
            ends = [common(fisher, values, highest=end) for end in (True, False)]
            found.setdefault(name, []).append((rank, *ends))
    table = Table(
        title="agreement with the Fisher trace, mean ± SE over three networks"
    )
    for title in ("score", "rank correlation", "highest 40 %", "lowest 40 %"):
        table.add_column(title, justify="right")
    for name, several in found.items():
        cells = [estimate(column) for column in zip(*several, strict=True)]
        table.add_row(name, *(f"{e.mean:.3f} ± {e.error:.3f}" for e in cells))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
