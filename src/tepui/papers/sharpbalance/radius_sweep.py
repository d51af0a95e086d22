"""Figures 3, 4, 5 and 12: sharpness against diversity over SAM's radius, and the slope.

Figure 3 has three measures of diversity on CIFAR-10, figure 4 three data sets, each
drawn twice: colored by what the ensemble gains (EIR), and by the members' accuracy on
corrupted data. Figure 12 has the worst case within a cube (a, d), the average case
(b, e) and the KL divergence (c, f). The paper's text does not say in what its two rows
differ: here they are colored as in figure 4. Figure 5 has the slope by width (a) and by
sparsity (b) of the members. A network that stands in for ResNet-18 has a thousandth of
its weights, so that its widths and sparsities are others, too: those of the paper name
them.

Shared with figure 1. Radius 0 is the deep ensemble. Ensembles have the
seeds of figure 7, so that those it trains (no radius, and the radius of its SAM) are
not trained again. Beta is the slope of log diversity on log sharpness over all
ensembles trained with SAM, not over the deep ensembles, as in the paper.

Differs from the paper:

- the worst case is sought by steps inside the neighborhood itself, which find more than
  the published ascent (a maximum is meant, and the higher value is nearer to it)
- weights of figure 5 are pruned at once, by magnitude over all layers, after half of
  the run (the paper does not say how it prunes)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product
from typing import TYPE_CHECKING, Any, NamedTuple

from tepui.methods import DeepEnsemble, Method
from tepui.modules.pruning import Prune
from tepui.papers.recipe import Numbers, Order, Recipe, Size, differing
from tepui.papers.sharpbalance.protocol import (
    DATASETS,
    LENGTHS,
    METRICS,
    Scored,
    metric_values,
    protocol_of,
    score_records,
    settings,
    title_of,
)
from tepui.report.scatter import Cloud, Scatter, scatter_panels
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

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Values = Sequence[float | None]  # one per repetition


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

    def sharpness(self, store: Store, measure: str) -> dict[float, Values]:
        """Return the mean sharpness of the members of each ensemble, by radius."""
        spec, found = self.measures[measure], dict[float, Values]()
        for rho, runs in self.trials.items():
            measured = (store.measured(trial, spec) for trial in runs)
            found[rho] = [next(iter(each.values()))["mean"] for each in measured]
        return found

    def scores(self, store: Store) -> dict[float, list[Scored]]:
        """Return the scores on corrupted data of each ensemble, by radius."""
        return {
            rho: [store.evaluation(trial, self.test)["shifted"] for trial in runs]
            for rho, runs in self.trials.items()
        }


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
    *,
    at: Mapping[str, Any] | None = None,
    note: str = "",
    **names: Any,
) -> Numbers:
    """Return sharpness, scores and slopes of ensembles over radii."""
    where = {"ensemble_size": len(next(iter(swept.trials.values()))[0].seeds)}
    names["dataset"] = swept.dataset
    of_scores = {**names, "dataset": f"{swept.dataset}_c"}

    def records(store: Store) -> Iterator[Record]:
        sharpness = {name: swept.sharpness(store, name) for name in measures}
        scores = swept.scores(store)
        for rho, runs in swept.trials.items():
            here = {**where, "rho": rho, **(at or {})}
            method = {"method": swept.method if rho else "deep_ensemble"}
            for measure in measures:
                place = {**here, "sharpness_measure": measure}
                named = {"metric": "sharpness", "unit": "none", "at": place, **names}
                yield averaged(sharpness[measure][rho], runs, **method, **named)
            more = {"at": here, **method, **of_scores}
            yield from score_records(scores[rho], metrics, runs, **more)
        for measure, diversity in product(measures, diversities):
            yield beta_record(
                swept,
                sharpness[measure],
                {rho: metric_values(each, diversity) for rho, each in scores.items()},
                at={
                    **where,
                    "sharpness_measure": measure,
                    "diversity": diversity,
                    **(at or {}),
                },
                note=note,
                **names,
            )

    asked = tuple(swept.measures[measure] for measure in measures)
    runs = chain.from_iterable(swept.trials.values())
    return Numbers([Job(trial, (swept.test,), asked) for trial in runs], records)


def beta_record(
    swept: Sweep,
    sharpness: Mapping[float, Values],
    diversity: Mapping[float, Values],
    **names: Any,
) -> Record:
    """Return the slope of log diversity on log sharpness over ensembles of SAM."""
    with_sam = [rho for rho in swept.trials if rho]
    points = [[*zip(sharpness[r], diversity[r], strict=True)] for r in with_sam]
    line = fitted(list(chain.from_iterable(points)))
    repetitions = [fitted(list(repetition)) for repetition in zip(*points, strict=True)]
    return Record(
        method="sam_rho_sweep",
        metric="beta",
        value=line.slope if line else None,
        unit="none",
        n=line.count if line else 0,
        interval=(line.low, line.high) if line and line.count > 2 else None,
        values=tuple(line.slope if line else None for line in repetitions),
        config_hash=config_hash([t for rho in with_sam for t in swept.trials[rho]]),
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
LABELS = {"sam": "SAM", "deep_ensemble": "no SAM"}


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
    results: Results,
    dataset: str,
    axes: Axes = USUAL,
    methods: Mapping[str, str] = LABELS,
    **names: Any,
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
    for method, label in methods.items():
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
    low, high = beta.interval or (None, None)
    interval = "" if low is None else f" ({low:.2f} to {high:.2f})"
    return f"beta = {beta.value:.2f}{interval}"


def sweep_settings(
    order: Order, datasets: Sequence[str], *notes: str, grid: Grid | None = None
) -> dict[str, Any]:
    """Return how a study over radii is made, for its results."""
    samples, steps, draws = _EFFORT[order.size]
    document = settings(order, datasets, *differing(__doc__), *notes)
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
VARIED = {"a": "width", "b": "sparsity"}
# What stands for each of the paper's levels.
LEVELS: Mapping[Size, Mapping[str, Mapping[float, Any]]] = {
    "paper": {
        "width": {8: 8, 16: 16, 64: 64, 128: 128},
        "sparsity": {0: 0.0, 0.8: 0.8, 0.95: 0.95, 0.99: 0.99},
    },
    "small": {
        "width": {8: 2, 16: 4, 64: 8, 128: 12},
        "sparsity": {0: 0.0, 0.8: 0.5, 0.95: 0.8, 0.99: 0.9},
    },
    "smoke": {
        "width": {8: 1, 64: 2},
        "sparsity": {0: 0.0, 0.8: 0.5},
    },
}


# Trained for less long where time is short, at fewer radii.
EPOCHS: Mapping[Size, int | None] = {"paper": None, "small": 10, "smoke": None}
LEVEL_GRIDS: Mapping[Size, Grid] = {
    "paper": GRIDS["paper"]["cifar10"],
    "small": Grid((0.01, 0.02, 0.05, 0.1, 0.15, 0.2), 1),
    "smoke": GRIDS["smoke"]["cifar10"],
}


def level(order: Order, axis: str, name: float) -> Sweep:
    """Return the ensembles of one width or sparsity."""
    value = LEVELS[order.size][axis][name]
    shortened = order._replace(epochs=order.epochs or EPOCHS[order.size])
    if axis == "width":
        model = protocol_of(order, "cifar10").model
        change: dict[str, Any] = {"model": partial(model, width=value)}
    else:
        change = {"prune": Prune(sparsity=value) if value else None}
    return sweep(shortened, "cifar10", grid=LEVEL_GRIDS[order.size], **change)


def by_level(order: Order) -> Iterator[Numbers]:
    """Return sharpness, diversity, color and slope, by panel and level."""
    for panel in order.panels:
        axis = VARIED[panel]
        for name, value in LEVELS[order.size][axis].items():
            yield sweep_numbers(
                level(order, axis, name),
                ["der", "eir"],
                item=f"sharpbalance/figure5{panel}",
                architecture="resnet18",
                at={axis: name},
                note="" if value == name else f"{axis} {value:g} stands for {name}",
            )


def draw_levels(results: Results) -> "Figure":
    """Return a panel for widths and one for sparsities, colored by EIR."""
    data = title_of(results, "cifar10")
    return scatter_panels(
        [
            Axes().scatter(
                f"({letter}) {VARIED[letter]}, {data}", _of_levels(results, letter)
            )
            for letter in results.settings["panels"]
        ]
    )


def _of_levels(results: Results, panel: str) -> tuple[Cloud, ...]:
    item, axis = f"sharpbalance/figure5{panel}", VARIED[panel]
    levels = [beta.at[axis] for beta in results.find(item=item, metric="beta")]
    return tuple(
        replace(cloud, name=cloud.name.replace("SAM", f"{axis} {level:g}"))
        for level in levels
        for cloud in clouds(results, "cifar10", item=item, **{axis: level})
    )


def level_settings(order: Order) -> dict[str, Any]:
    """Return the settings of the study, with what stands for the paper's levels."""
    shown = {VARIED[panel]: LEVELS[order.size][VARIED[panel]] for panel in order.panels}
    epochs = EPOCHS[order.size]
    grid = LEVEL_GRIDS[order.size]
    document = sweep_settings(order, ["cifar10"], grid=grid)
    if epochs and not order.epochs:
        document["cifar10"]["epochs"] = epochs
    document["levels"] = {
        axis: {f"{name:g}": value for name, value in levels.items()}
        for axis, levels in shown.items()
    }
    return document


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
    "figure5": Recipe(
        title="slope of the trade-off by width and sparsity",
        numbers=by_level,
        settings=level_settings,
        draw=draw_levels,
        panels=tuple(VARIED),
        overrides=LENGTHS,
    ),
}
