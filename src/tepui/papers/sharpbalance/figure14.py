"""Figure 14: do other scores rank samples as the Fisher trace does?

The paper ranks 1000 samples by the Fisher trace and by the loss's curvature around the
input, and says that both agree. Here also by the other scores that SharpBalance can
take, and by the loss itself. Members are those of figure 7 trained with SAM, as members
are when SharpBalance scores samples; the correlation is averaged over them.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from tepui.data import Arrays
from tepui.data.loading import in_order
from tepui.losses import Loss
from tepui.metrics.ood import rank_correlation, ranks
from tepui.modules.running import device_of, evaluating, forward
from tepui.papers.recipe import Numbers, Order, Recipe, Size
from tepui.papers.sharpbalance.protocol import LENGTHS, protocol_of, settings, title_of
from tepui.report.scatter import Cloud, Scatter, scatter_panels
from tepui.sharpness import (
    Measurement,
    sample_fisher_trace,
    sample_hessian_trace,
    sample_input_curvature,
    sample_sam_gap,
    sample_worst_case_gap,
)
from tepui.studies import Job, Record, Results, SharpnessSpec, Store, averaged
from tepui.studies.results import config_hash

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATASET = "cifar10"
SCORES = {
    "input_curvature": "curvature around the input",
    "worst_case": "largest rise near the weights",
    "hessian_trace": "trace of the Hessian",
    "sam_gap": "rise after the batch's SAM step",
    "loss": "loss",
}
SHOWN = "input_curvature"


def score_agreement(
    model: nn.Module,
    data: Arrays,
    *,
    loss: Loss,
    generator: torch.Generator,
    num_samples: int = 1000,
    probes: int = 10,
    rho: float = 0.05,
) -> tuple[Measurement, ...]:
    """Return the rank correlation of each score with the Fisher trace."""
    drawn = torch.randperm(len(data), generator=generator)[:num_samples]
    few = data.subset(drawn.sort().values.to(data.targets.device))
    fisher = sample_fisher_trace(model, few, loss=loss)
    others = {
        "input_curvature": sample_input_curvature(
            model, few, loss=loss, num_probes=probes
        ),
        "worst_case": sample_worst_case_gap(model, few, loss=loss, rho=rho),
        "hessian_trace": sample_hessian_trace(
            model, few, loss=loss, num_probes=probes, generator=generator
        ),
        "sam_gap": sample_sam_gap(model, few, loss=loss, rho=rho),
        "loss": sample_losses(model, few, loss),
    }
    return tuple(
        Measurement(
            float(rank_correlation(fisher.double(), score.double())),
            float("nan"),
            {
                "measure": "score_agreement",
                "score": name,
                "num_samples": len(few),
                "ranks": [_ranked(fisher), _ranked(score)] if name == SHOWN else [],
            },
        )
        for name, score in others.items()
    )


def sample_losses(model: nn.Module, data: Arrays, loss: Loss) -> Tensor:
    """Return the loss of every sample."""
    with evaluating(model), torch.no_grad():
        return torch.cat(
            [
                loss(forward(model, batch.inputs), batch.targets)
                for batch in in_order(data, 1024, device=device_of(model))
            ]
        )


def _ranked(scores: Tensor) -> list[float]:
    ranked: list[float] = ranks(scores).tolist()
    return ranked


MEASURES: Mapping[Size, SharpnessSpec] = {
    "paper": SharpnessSpec(score_agreement),
    "small": SharpnessSpec(score_agreement),
    "smoke": SharpnessSpec(partial(score_agreement, num_samples=30, probes=2)),
}


def numbers(order: Order) -> Iterator[Numbers]:
    """Return rank correlations, and the ranks of one member's samples."""
    protocol = protocol_of(order, DATASET)
    runs = protocol.trials(protocol.methods()["sam"])
    agreement = MEASURES[order.size]
    names: dict[str, Any] = {
        "item": "sharpbalance/figure14",
        "dataset": DATASET,
        "architecture": "resnet18",
        "method": "sam",
        "unit": "none",
    }

    def records(store: Store) -> Iterator[Record]:
        agreements = [list(store.measured(trial, agreement).values()) for trial in runs]
        for number, score in enumerate(SCORES):
            yield averaged(
                [scores[number]["mean"] for scores in agreements],
                runs,
                metric="rank_correlation",
                at={"score": score, "ensemble_size": protocol.members},
                **names,
            )
        both = agreements[0][0]["members"][0]["settings"]["ranks"]
        for score, values in zip(("fisher_trace", SHOWN), both, strict=True):
            yield Record(
                metric="mean_rank",
                value=sum(values) / len(values),
                n=len(values),
                values=tuple(values),
                at={"score": score, "ensemble_size": protocol.members},
                config_hash=config_hash(runs[:1]),
                note="values are the ranks of samples, for the picture: one member's",
                **names,
            )

    yield Numbers([Job(trial, measures=(agreement,)) for trial in runs], records)


def draw(results: Results) -> "Figure":
    """Return each sample's ranks by both scores."""
    x, y = (
        results.one(metric="mean_rank", score=score).values
        for score in ("fisher_trace", SHOWN)
    )
    agreement = results.one(metric="rank_correlation", score=SHOWN).value
    said = title_of(results, DATASET)
    if agreement is not None:
        said += f"\nSpearman's correlation {agreement:.2f}"
    panel = Scatter(
        said, "rank by Fisher trace", f"rank by {SCORES[SHOWN]}", (Cloud("", x, y),)
    )
    return scatter_panels([panel])


RECIPE = Recipe(
    title="rank correlation of samples' Fisher trace with other scores",
    numbers=numbers,
    settings=lambda order: settings(order, [DATASET], scores=SCORES),
    draw=draw,
    overrides=LENGTHS,
)
