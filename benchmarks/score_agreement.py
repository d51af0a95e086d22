"""Do other scores rank samples as the Fisher trace does?

Three ConvNets on digits, six epochs of SAM each; Spearman's rank correlation of every
score with the Fisher trace over all 1437 training samples, and the share of the top
40 % that both have in common.

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


def top(values: torch.Tensor) -> set[int]:
    return set(values.argsort(descending=True)[: int(0.4 * len(values))].tolist())


def main() -> None:
    data = Digits()
    ensemble = tepui.Ensemble.build(ConvNet, members=3, seed=13)
    schedule = tepui.MultiStep()
    tepui.fit(ensemble, data, method=SAM(rho=RHO), epochs=6, schedule=schedule)
    correlations: dict[str, list[float]] = {}
    common: dict[str, list[float]] = {}
    for model in ensemble.members:
        fisher = sample_fisher_trace(model, data)
        for name, values in scores(model, data).items():
            rank = spearmanr(fisher.numpy(), values.numpy()).statistic
            correlations.setdefault(name, []).append(float(rank))
            both = top(fisher) & top(values)
            common.setdefault(name, []).append(len(both) / len(top(fisher)))
    table = Table(
        title="agreement with the Fisher trace, mean ± SE over three networks"
    )
    for title in ("score", "rank correlation", "common top 40 %"):
        table.add_column(title, justify="right")
    for name, values in correlations.items():
        cells = [estimate(values), estimate(common[name])]
        table.add_row(name, *(f"{e.mean:.3f} ± {e.error:.3f}" for e in cells))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
