"""Figures 3, 4 and 12: sharpness against diversity over SAM's radius, and the slope.

Figure 3 has three measures of diversity on CIFAR-10, figure 4 three data sets, each
drawn twice: colored by what the ensemble gains (EIR), and by the members' accuracy on
corrupted data. Figure 12 has the worst case within a cube (a, d), the average case
(b, e) and the KL divergence (c, f). The paper's text does not say in what its two rows
differ: here they are colored as in figure 4.

Shared with figures 1 and 5. Radius 0 is the deep ensemble. Ensembles have the
seeds of figure 7, so that those it trains (no radius, and the radius of its SAM) are
not trained again. Beta is the slope of log diversity on log sharpness over all
ensembles trained with SAM, not over the deep ensembles, as in the paper.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from typing import TYPE_CHECKING, Any, NamedTuple

from tepui.methods import DeepEnsemble, Method
from tepui.papers.recipe import Numbers, Order, Recipe, Size
from tepui.papers.sharpbalance.protocol import (
    DATASETS,
    LENGTHS,
    protocol_of,
    settings,
    title_of,
)
from tepui.papers.sharpbalance.scores import METRICS, metric_values, score_records
from tepui.report.scatter import Cloud, Scatter, scatter_panels
from tepui.sharpness import average_case, worst_case
from tepui.studies import (
    Departure,
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

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Grid(NamedTuple):
    """Which ensembles a sweep has."""

    radii: tuple[float, ...]
    ensembles: int  # repetitions at each radius


# The paper draws one ensemble for each radius.
_PAPER = Grid((0.01, 0.015, 0.02, 0.025, 0.03, 0.05, 0.1, 0.2, 0.3, 0.4), 1)
GRIDS: Mapping[Size, Mapping[str, Grid]] = {
    "paper": dict.fromkeys(DATASETS, _PAPER),
    "small": dict.fromkeys(
        DATASETS, Grid((0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2), 1)
    ),
    "smoke": dict.fromkeys(DATASETS, Grid((0.05, 0.2), 2)),
}
# Samples, steps of ascent and draws: the paper's, and fewer.
_EFFORT: Mapping[Size, tuple[int, int, int]] = {
    "paper": (500, 20, 100),
    "small": (100, 10, 20),
    "smoke": (10, 3, 3),
}
ASCENT = Departure(
    "the worst case is sought by steps inside the neighborhood itself, which find more "
    "than the published ascent",
    "a maximum is meant, and the higher value is nearer to it",
)
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
        measured = (store.measured(trial, spec) for trial in self.trials[rho])
        return [next(iter(measures.values()))["mean"] for measures in measured]

    def scores(self, store: Store, rho: float) -> list[dict[str, float | None]]:
        """Return the scores on corrupted data of each ensemble at a radius."""
        runs = self.trials[rho]
        return [store.evaluation(trial, self.test)["shifted"] for trial in runs]


def sweep(
    order: Order,
    dataset: str,
    *,
    grid: Grid | None = None,
    name: str = "sam",
    method: Callable[[float], Method] | None = None,
    **changes: Any,
) -> Sweep:
    """Return ensembles over radii; radius 0, the deep ensemble, if no grid is given."""
    usual = GRIDS[order.size][dataset]
    radii, ensembles = grid or Grid((0, *usual.radii), usual.ensembles)
    protocol = protocol_of(order, dataset)
    protocol = protocol._replace(ensembles=order.ensembles or ensembles)
    aware = method or protocol.sam
    at = {
        rho: protocol.trials(aware(rho) if rho else DeepEnsemble(), **changes)
        for rho in radii
    }
    test = protocol.evaluation_spec()
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
    return Numbers([Job(trial, (swept.test,), asked) for trial in runs], records)


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
    with_sam = {rho: runs for rho, runs in swept.trials.items() if rho}
    points = [
        list(
            zip(
                swept.sharpness(store, rho, measure),
                metric_values(swept.scores(store, rho), diversity),
                strict=True,
            )
        )
        for rho in with_sam
    ]
    line = fitted(list(chain.from_iterable(points)))
    repetitions = [fitted(list(repetition)) for repetition in zip(*points, strict=True)]
    runs = [*chain.from_iterable(with_sam.values())]
    return Record(
        dataset=swept.dataset,
        method="sam_rho_sweep",
        metric="beta",
        value=line.slope if line else None,
        unit="none",
        n=line.count if line else 0,
        interval=(line.low, line.high) if line and line.count > 2 else None,
        values=tuple(line.slope if line else None for line in repetitions),
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
    positive = [(x, y) for x, y in points if x and y and x > 0 and y > 0]
    if len({x for x, _ in positive}) < 2:
        return None
    return tradeoff_slope([x for x, _ in positive], [y for _, y in positive])


class Axes(NamedTuple):
    """What a panel of diversity against sharpness shows."""

    measure: str = "worst_case"
    diversity: str = "der"
    color: str = "eir"  # metric that colors the marks

    def scatter(self, title: str, clouds: tuple[Cloud, ...]) -> Scatter:
        """Return the panel."""
        labels = MEASURES[self.measure], DIVERSITY[self.diversity]
        return Scatter(title, *labels, clouds, color_label(self.color), log=True)


USUAL = Axes()


class Swept(NamedTuple):
    """What one panel of a figure sweeps, and what it draws."""

    dataset: str = "cifar10"
    axes: tuple[Axes, ...] = (USUAL,)  # of what is drawn of it


def sweep_recipe(
    item: str, title: str, panels: Mapping[str, Swept], *, columns: int | None = 3
) -> Recipe:
    """Return the recipe of a figure of sweeps, by the letters of its panels."""

    def numbers(order: Order) -> Iterator[Numbers]:
        for letter in order.panels or ("",):
            dataset, axes = panels[letter]
            measures, diversities, colors = map(dict.fromkeys, zip(*axes, strict=True))
            yield sweep_numbers(
                sweep(order, dataset),
                [*diversities, *colors],
                [*measures],
                [*diversities],
                item=f"{item}{letter}",
                architecture="resnet18",
            )

    def draw(results: Results) -> "Figure":
        letters = results.settings["panels"] or [""]
        rows = zip(*(panels[letter].axes for letter in letters), strict=True)
        shown = []
        for letter, axes in (
            pair for row in rows for pair in zip(letters, row, strict=True)
        ):
            dataset = panels[letter].dataset
            marks = clouds(results, dataset, axes, item=f"{item}{letter}")
            title = f"{letter and f'({letter}) '}{title_of(results, dataset)}"
            shown.append(axes.scatter(title, marks))
        return scatter_panels(shown, columns=columns or len(letters))

    return Recipe(
        title=title,
        numbers=numbers,
        settings=lambda order: sweep_settings(
            order,
            [*dict.fromkeys(panels[p].dataset for p in order.panels or ("",))],
        ),
        draw=draw,
        panels=tuple(filter(None, panels)),
        overrides=LENGTHS,
    )


def clouds(
    results: Results, dataset: str, axes: Axes = USUAL, **names: Any
) -> tuple[Cloud, ...]:
    """Return an ensemble per mark, from records, with the line of slope beta."""

    def values(method: str, metric: str, data: str, **more: Any) -> list[float | None]:
        shown = results.find(
            metric=metric, dataset=data, method=method, **more, **names
        )
        return list(chain.from_iterable(record.values for record in shown))

    at = {"sharpness_measure": axes.measure, "diversity": axes.diversity}
    betas = results.find(metric="beta", dataset=dataset, **at, **names)
    drawn = []
    for method, label in (("sam", "SAM"), ("deep_ensemble", "no SAM")):
        x = values(method, "sharpness", dataset, sharpness_measure=axes.measure)
        if not x:
            continue
        y = values(method, axes.diversity, f"{dataset}_c")
        color = values(method, axes.color, f"{dataset}_c")
        beta = betas[0] if betas and method == "sam" else None
        name = label if beta is None else f"{label}, {_said(beta)}"
        drawn.append(Cloud(name, x, y, color, None if beta is None else beta.value))
    return tuple(drawn)


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
    order: Order, datasets: Sequence[str], *notes: Departure, grid: Grid | None = None
) -> dict[str, Any]:
    """Return how a study over radii is made, for its results."""
    samples, steps, draws = _EFFORT[order.size]
    document = settings(order, datasets, ASCENT, *notes)
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


FIGURE12_PAIRS = (
    ("worst_case_linf", "der"),
    ("average_case", "der"),
    ("worst_case", "kl"),
)
COLORS = ("eir", "individual_accuracy")
RECIPES = {
    "figure3": sweep_recipe(
        "sharpbalance/figure3",
        "diversity by three measures against sharpness, over SAM's radius",
        {"": Swept("cifar10", tuple(Axes(diversity=name) for name in DIVERSITY))},
    ),
    "figure4": sweep_recipe(
        "sharpbalance/figure4",
        "diversity against sharpness on three data sets, over SAM's radius",
        {
            letter: Swept(dataset, tuple(Axes(color=color) for color in COLORS))
            for letter, dataset in zip("abc", DATASETS, strict=True)
        },
        columns=None,
    ),
    "figure12": sweep_recipe(
        "sharpbalance/figure12",
        "the trade-off by other measures of sharpness and diversity",
        {
            letter: Swept("cifar10", (Axes(*pair, color),))
            for letter, (color, pair) in zip(
                "abcdef", product(COLORS, FIGURE12_PAIRS), strict=True
            )
        },
    ),
}
