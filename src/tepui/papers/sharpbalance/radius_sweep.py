r"""Ensembles over SAM's radius: sharpness against diversity, and the slope beta.

Shared by figures 1, 3, 4, 5 and 12. Radius 0 is the deep ensemble. Ensembles have the
seeds of figure 7, so that those it trains (no radius, and the radius of its SAM) are
not trained again. Beta is the slope of log diversity on log sharpness over all
ensembles trained with SAM, not over the deep ensembles, as in the paper.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from typing import Any, NamedTuple

from tepui.methods import SAM, DeepEnsemble, Method
from tepui.papers.recipe import Numbers, Order, Size
from tepui.papers.sharpbalance.protocol import (
    DATASETS,
    evaluation_spec,
    protocol_of,
    settings,
    title_of,
    trials,
)
from tepui.papers.sharpbalance.scores import METRICS, metric_values, score_records
from tepui.report.scatter import Cloud, Scatter
from tepui.sharpness import average_case, worst_case
from tepui.studies import (
    EvaluationSpec,
    Job,
    Record,
    Results,
    SharpnessSpec,
    Slope,
    Store,
    Trial,
    averaged,
    tradeoff_slope,
)
from tepui.studies.results import config_hash


class Grid(NamedTuple):
    """Which ensembles a sweep has."""

    radii: tuple[float, ...]
    ensembles: int  # repetitions at each radius


# The paper draws one ensemble for each radius.
_PAPER = Grid((0.01, 0.015, 0.02, 0.025, 0.03, 0.05, 0.1, 0.2, 0.3, 0.4), 1)
GRIDS: Mapping[Size, Mapping[str, Grid]] = {
    "paper": dict.fromkeys(DATASETS, _PAPER),
    "small": {
        "cifar10": Grid((0.05, 0.1, 0.2, 0.4), 2),
        "cifar100": Grid((0.05, 0.1, 0.2, 0.4), 1),
        "tiny_imagenet": Grid((0.05, 0.2, 0.4), 1),
    },
    "smoke": dict.fromkeys(DATASETS, Grid((0.05, 0.2), 2)),
}
# Samples, steps of ascent and draws: the paper's, and fewer.
_EFFORT: Mapping[Size, tuple[int, int, int]] = {
    "paper": (500, 20, 100),
    "small": (100, 10, 20),
    "smoke": (10, 3, 3),
}
_FEWER = "fewer radii, samples and steps of ascent"
SHARPNESS: Mapping[Size, Mapping[str, SharpnessSpec]] = {
    size: {
        "worst_case": SharpnessSpec(
            partial(worst_case, num_samples=samples, num_steps=steps)
        ),
        "worst_case_linf": SharpnessSpec(
            partial(worst_case, norm="linf", num_samples=samples, num_steps=steps)
        ),
        "average_case": SharpnessSpec(
            partial(average_case, num_samples=samples, num_draws=draws)
        ),
    }
    for size, (samples, steps, draws) in _EFFORT.items()
}
MEASURES = {
    "worst_case": "sharpness (worst case)",
    "worst_case_linf": "sharpness (worst case, max norm)",
    "average_case": "sharpness (average case)",
}
DIVERSITY = {
    "der": "diversity (DER)",
    "kl": "diversity (KL)",
    "variance": "diversity (variance)",
}


@dataclass(frozen=True)
class Sweep:
    """Ensembles of one network on one data set, over radii."""

    dataset: str  # name of the paper's data set
    method: str  # name of the method with a radius
    trials: Mapping[float, Sequence[Trial]]  # an ensemble per repetition, by radius
    test: EvaluationSpec  # what they are tested on
    # how their sharpness can be measured, by name
    measures: Mapping[str, SharpnessSpec]

    def sharpness(self, store: Store, rho: float, measure: str) -> list[float | None]:
        """Return the mean sharpness of the members of each ensemble at a radius."""
        spec = self.measures[measure]
        found = (store.measured(each, spec) for each in self.trials[rho])
        return [next(iter(each.values()))["mean"] for each in found]

    def scores(self, store: Store, rho: float) -> list[dict[str, float | None]]:
        """Return the scores on corrupted data of each ensemble at a radius."""
        found = [store.evaluation(each, self.test) for each in self.trials[rho]]
        return [each["shifted"] for each in found]


def sweep(
    order: Order,
    dataset: str,
    *,
    grid: Grid | None = None,
    name: str = "sam",
    method: Callable[[float], Method] = lambda rho: SAM(rho=rho),
    **changes: Any,
) -> Sweep:
    """Return ensembles over radii; radius 0, the deep ensemble, if no grid is given."""
    usual = GRIDS[order.size][dataset]
    radii, ensembles = grid or Grid((0, *usual.radii), usual.ensembles)
    protocol = protocol_of(order, dataset)
    protocol = protocol._replace(ensembles=order.ensembles or ensembles)
    at = {
        rho: trials(protocol, method(rho) if rho else DeepEnsemble(), **changes)
        for rho in radii
    }
    test = evaluation_spec(protocol)
    return Sweep(dataset, name, at, test, SHARPNESS[order.size])


def sweep_numbers(
    swept: Sweep,
    metrics: Sequence[str],
    measures: Sequence[str] = ("worst_case",),
    diversities: Sequence[str] = ("der",),
    **names: Any,
) -> Numbers:
    """Return sharpness, scores and slopes of ensembles over radii."""

    def records(store: Store) -> Iterator[Record]:
        yield from point_records(store, swept, metrics, measures, **names)
        for measure, diversity in product(measures, diversities):
            yield beta_record(store, swept, measure, diversity, **names)

    asked = tuple(swept.measures[measure] for measure in measures)
    runs = chain.from_iterable(swept.trials.values())
    return Numbers([Job(each, (swept.test,), asked) for each in runs], records)


def point_records(
    store: Store,
    swept: Sweep,
    metrics: Sequence[str],
    measures: Sequence[str],
    *,
    at: Mapping[str, Any] | None = None,
    **names: Any,
) -> Iterator[Record]:
    """Return sharpness and scores at each radius, a value per ensemble."""
    for rho, runs in swept.trials.items():
        here = {"ensemble_size": len(runs[0].seeds), "rho": rho, **(at or {})}
        method = swept.method if rho else "deep_ensemble"
        for measure in measures:
            yield averaged(
                swept.sharpness(store, rho, measure),
                runs,
                dataset=swept.dataset,
                method=method,
                metric="sharpness",
                unit="none",
                at={**here, "sharpness_measure": measure},
                **names,
            )
        yield from score_records(
            swept.scores(store, rho),
            metrics,
            runs,
            dataset=f"{swept.dataset}_c",
            method=method,
            at=here,
            **names,
        )


def beta_record(
    store: Store,
    swept: Sweep,
    measure: str = "worst_case",
    diversity: str = "der",
    *,
    at: Mapping[str, Any] | None = None,
    note: str = "",
    **names: Any,
) -> Record:
    """Return the slope of log diversity on log sharpness over ensembles of SAM."""
    radii = [rho for rho in swept.trials if rho]
    columns = [
        list(
            zip(
                swept.sharpness(store, rho, measure),
                metric_values(swept.scores(store, rho), diversity),
                strict=True,
            )
        )
        for rho in radii
    ]
    line = fitted(list(chain.from_iterable(columns)))
    each = [fitted(list(repetition)) for repetition in zip(*columns, strict=True)]
    runs = [trial for rho in radii for trial in swept.trials[rho]]
    return Record(
        dataset=swept.dataset,
        method="sam_rho_sweep",
        metric="beta",
        value=line.slope if line else None,
        unit="none",
        n=line.count if line else 0,
        interval=(line.low, line.high) if line and line.count > 2 else None,
        values=tuple(found.slope if found else None for found in each),
        at={
            "ensemble_size": len(runs[0].seeds),
            "sharpness_measure": measure,
            "diversity": diversity,
            **(at or {}),
        },
        config_hash=config_hash(runs),
        note=note,
        **names,
    )


def fitted(points: Sequence[tuple[float | None, float | None]]) -> Slope | None:
    """Return the slope through the points that have logarithms.

    Example:
        >>> line = fitted([(1.0, 1.0), (2.0, 4.0), (None, 1.0), (1.0, 0.0)])
        >>> round(line.slope, 6), line.count
        (2.0, 2)
    """
    known = [(x, y) for x, y in points if x and y and x > 0 and y > 0]
    if len({x for x, _ in known}) < 2:
        return None
    return tradeoff_slope([x for x, _ in known], [y for _, y in known])


def trade_off(
    found: Results,
    dataset: str,
    letter: str = "",
    *,
    measure: str = "worst_case",
    diversity: str = "der",
    color: str = "eir",
    **names: Any,
) -> Scatter:
    """Return a panel of diversity against sharpness, an ensemble per mark."""
    return Scatter(
        f"{letter and f'({letter}) '}{title_of(found, dataset)}",
        MEASURES[measure],
        DIVERSITY[diversity],
        clouds(
            found, dataset, measure=measure, diversity=diversity, color=color, **names
        ),
        color_label(color),
        log=True,
    )


def clouds(
    found: Results,
    dataset: str,
    *,
    measure: str = "worst_case",
    diversity: str = "der",
    color: str = "eir",
    **names: Any,
) -> tuple[Cloud, ...]:
    """Return an ensemble per mark, from records, with the line of slope beta."""
    betas = found.find(metric="beta", sharpness_measure=measure, **names)
    slopes = [each for each in betas if each.at["diversity"] == diversity]
    slopes = [each for each in slopes if each.dataset == dataset]
    result = []
    for method, label in (("sam", "SAM"), ("deep_ensemble", "no SAM")):

        def values(metric: str, data: str, method: str = method, **more: Any) -> Any:
            shown = found.find(
                metric=metric, dataset=data, method=method, **more, **names
            )
            return list(chain.from_iterable(each.values for each in shown))

        x = values("sharpness", dataset, sharpness_measure=measure)
        if not x:
            continue
        beta = slopes[0] if slopes and method == "sam" else None
        name = label if beta is None else f"{label}, {_said(beta)}"
        slope = None if beta is None else beta.value
        y, tint = (values(each, f"{dataset}_c") for each in (diversity, color))
        result.append(Cloud(name, x, y, tint, slope))
    return tuple(result)


def _said(beta: Record) -> str:
    """Return a slope in words, with its interval."""
    if beta.value is None:
        return "beta not defined"
    said = f"beta = {beta.value:.2f}"
    if beta.interval is None:
        return said
    low, high = beta.interval
    return f"{said} ({low:.2f} to {high:.2f})"


def sweep_settings(
    order: Order, datasets: Sequence[str], *notes: str, grid: Grid | None = None
) -> dict[str, Any]:
    """Return how a study over radii is made, for its results."""
    samples, steps, draws = _EFFORT[order.size]
    fewer = () if order.size == "paper" else (_FEWER,)
    document = settings(order, datasets, *fewer, *notes)
    for name in datasets:
        radii, ensembles = grid or GRIDS[order.size][name]
        ensembles = order.ensembles or ensembles
        document[name] |= {"radii": list(radii), "ensembles": ensembles}
    document["sharpness"] = (
        f"adaptive, radius 0.5, {samples} training samples in batches of "
        f"5, {steps} steps of ascent; average case: {draws} draws"
    )
    return document


def color_label(metric: str) -> str:
    """Return what a color bar says of a metric."""
    unit = " in %" if METRICS[metric][1] == "percent" else ""
    words = {"eir": "improvement rate (EIR)"}
    return f"{words.get(metric, metric.replace('_', ' '))}{unit}"
