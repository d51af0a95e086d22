"""Curves of figures 1b, 2, 9, 10 and 11 of SharpBalance: theory beside simulation.

Random data of 3000 x 150, 50 repetitions; teacher and initial weights of variance 0.1;
sharpness within 0.01. Ranges are the paper's and, where it is silent (1b; steps and
step sizes of 2 and 9), those of its notebook; figure 11 takes the radii of figure 10.
Every figure marks the divergent regime and ends in a comparison that the paper does not
make: both methods stable and equally sharp.

Differs from the paper:

- means over first weights and the largest rise near the weights are exact, in the paper
  they are over 50 draws and by 50 steps of ascent (both have closed forms)
- the lower bound and Theorem 2's constant are corrected (as printed, the one has a
  wrong power and the other wrong multiplicities)

Measured: research/theory.md.

References:
    Lu et al., Sharpness-diversity tradeoff: improving flat ensembles with SharpBalance,
    NeurIPS 2024, Section 3 and Appendix C.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import cache, partial
from itertools import product
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from tepui.papers.recipe import DIFFERS, Numbers, Order, Recipe, Size, differing
from tepui.report.drawing import COLORS
from tepui.report.trade_offs import Curve, Panel, trade_off_figure
from tepui.studies import Record, Results
from tepui.theory import (
    Setting,
    eta_at_sharpness,
    largest_stable_rho,
    simulate_sam,
    stable,
    theorem1,
    theorem2,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


SUBSETS = {"SAM": 1, "SharpBalance": 10}
ETA = 0.01
MATCHED_RHO = (0.4, 0.0)
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = COLORS[:6]
METHOD_COLORS = {
    "SAM": BLUE,
    "SAM, rho = 0.4": GREEN,
    "SAM, rho = 0": SKY,
    "SharpBalance": VERMILION,
    "SharpBalance, rho = 0.4": PURPLE,
    "SharpBalance, rho = 0": ORANGE,
}


class Resolution(NamedTuple):
    """How large a figure's data are and how finely it is drawn."""

    setting: Setting  # size of the data, variances and radii
    matrices: int
    points: int


FULL = Resolution(
    Setting(rho0=0.01, n=3000, d=150, sigma2=0.1, theta_norm=15**0.5), 50, 20
)
QUICK = Resolution(
    Setting(rho0=0.01, n=240, d=12, sigma2=0.1, theta_norm=1.2**0.5), 3, 4
)


RESOLUTIONS: Mapping[Size, Resolution] = {
    "paper": FULL,
    "small": FULL._replace(points=10),
    "smoke": QUICK,
}
SEED = 0
COLUMNS = 4  # panels side by side
# Panels with the letter the paper gives them; ours have none.
Lettered = Sequence[tuple[str, Panel]]
# Steps, step sizes and radii along a curve.
Place = tuple[ArrayLike, ArrayLike, ArrayLike]
# What records hold of a curve: its column, that of its standard error, metric, source.
RECORDED = (
    ("diversity", None, "diversity", "theory"),
    ("sharpness_upper", None, "sharpness", "upper_bound"),
    ("sharpness_lower", None, "sharpness", "lower_bound"),
    ("diversity_simulated", "diversity_error", "diversity", "simulation"),
    ("sharpness_simulated", "sharpness_error", "sharpness", "simulation"),
)


def theory_recipe(
    item: str,
    title: str,
    panels_of: Callable[[Resolution], Lettered],
    letters: str,
) -> Recipe:
    """Return the recipe of a figure of theory, which trains nothing."""
    logarithmic = len(letters) > 2

    panels_at = cache(panels_of)

    def shown(order: Order) -> Lettered:
        panels = panels_at(RESOLUTIONS[order.size])
        if order.panels == tuple(letters):
            return panels
        return [(name, panel) for name, panel in panels if name in order.panels]

    def numbers(order: Order) -> Iterator[Numbers]:
        yield Numbers([], lambda store: records(order))

    def records(order: Order) -> Iterator[Record]:
        for letter, panel in shown(order):
            yield from panel_records(panel, f"{item}{letter}", RESOLUTIONS[order.size])

    def draw(results: Results) -> "Figure":
        order = Order(cast(Size, results.size), tuple(results.settings["panels"]))
        panels = [
            replace(panel, logarithmic=logarithmic and bool(letter))
            for letter, panel in shown(order)
        ]
        return trade_off_figure(panels, METHOD_COLORS, COLUMNS)

    return Recipe(
        title=title,
        numbers=numbers,
        settings=lambda order: _settings(order.size),
        draw=draw,
        panels=tuple(letters),
    )


def panel_records(panel: Panel, item: str, resolution: Resolution) -> Iterator[Record]:
    """Return the points of a panel as records."""
    for curve in panel.curves:
        points = zip(curve.k, curve.eta, curve.rho, curve.stable, strict=True)
        for point, (k, eta, rho, converges) in enumerate(points):
            regime = "stable" if converges else "divergent"
            where = {"k": int(k), "eta": float(eta), "rho": float(rho)}
            for column, error, metric, source in RECORDED:
                value = float(getattr(curve, column)[point])
                if np.isnan(value):
                    continue
                yield Record(
                    item=item,
                    dataset="random_quadratic",
                    architecture="linear",
                    method=curve.method.split(",")[0].lower(),
                    metric=metric,
                    value=value,
                    unit="none",
                    n=0 if error is None else resolution.matrices,
                    sem=None if error is None else float(getattr(curve, error)[point]),
                    at={
                        "panel": panel.title,
                        "curve": curve.method,
                        **where,
                        "regime": regime,
                        "source": source,
                    },
                )


def figure1b_curves(resolution: Resolution) -> tuple[Curve, ...]:
    """Return the curves of figure 1b as published."""
    radii = {"SAM": (0.255, 0.24), "SharpBalance": (1.5, 0.01)}
    return tuple(
        curve_at(
            method, 3, ETA, np.linspace(*ends, resolution.points), resolution, None
        )
        for method, ends in radii.items()
    )


def by_steps(
    method: str,
    steps: Sequence[int],
    etas: Sequence[float],
    resolution: Resolution,
) -> list[tuple[str, Panel]]:
    """Return a row per number of steps: a panel per step size, then ours."""
    rho = np.linspace(0.5, 0.3, resolution.points)
    places = [*product(steps, etas)]
    curves = curves_at(method, [(k, eta, rho) for k, eta in places], resolution)
    panels = [
        (letter, Panel(f"({letter}) k = {k}, eta = {eta}, rho 0.5 to 0.3", (curve,)))
        for letter, (k, eta), curve in zip(
            ascii_lowercase, places, curves, strict=False
        )
    ]
    width = len(etas)
    return [
        panel
        for row, ours in enumerate(matched(steps, resolution))
        for panel in (*panels[row * width : (row + 1) * width], ("", ours))
    ]


def matched(steps: Sequence[int], resolution: Resolution) -> list[Panel]:
    """Return a panel per number of steps: both methods stable and equally sharp."""
    setting = resolution.setting
    start = theorem1(setting, 0, eta=0, rho=0).sharpness_upper
    wanted = start * np.linspace(0.95, 0.1, resolution.points)
    curves: dict[int, list[Curve]] = {step: [] for step in steps}
    for method, subsets in SUBSETS.items():
        lines = [*product(steps, MATCHED_RHO)]
        etas = [
            eta_at_sharpness(setting, wanted, step, rho=rho, subsets=subsets)
            for step, rho in lines
        ]
        points = [
            (step, eta[~np.isnan(eta)], rho)
            for (step, rho), eta in zip(lines, etas, strict=True)
        ]
        drawn = curves_at(method, points, resolution)
        for (step, rho), curve in zip(lines, drawn, strict=True):
            name, no_bound = f"{method}, rho = {rho:g}", np.full(len(curve.k), np.nan)
            curves[step].append(replace(curve, method=name, sharpness_lower=no_bound))
    return [
        Panel(f"equally sharp, stable, k = {step}", tuple(lines))
        for step, lines in curves.items()
    ]


def curves_at(
    method: str, points: Sequence[Place], resolution: Resolution
) -> list[Curve]:
    """Return a curve for each steps, step sizes and radii; all share simulations."""
    places = [np.broadcast_arrays(*point) for point in points]
    k, eta, rho = (np.concatenate(column) for column in zip(*places, strict=True))
    whole = curve_at(method, k, eta, rho, resolution, SEED)
    ends = np.cumsum([len(k) for k, _, _ in places])
    starts = (0, *ends[:-1])
    return [whole.part(slice(*span)) for span in zip(starts, ends, strict=True)]


def curve_at(
    method: str,
    k: ArrayLike,
    eta: ArrayLike,
    rho: ArrayLike,
    resolution: Resolution,
    seed: int | None,
) -> Curve:
    """Return theory and, where a seed is given, simulation at all points."""
    subsets, setting = SUBSETS[method], resolution.setting
    k, eta, rho = np.broadcast_arrays(k, eta, rho)
    if subsets == 1:
        said = theorem1(setting, k, eta=eta, rho=rho)
    else:
        said = theorem2(setting, k, eta=eta, rho=rho, subsets=subsets)
    seen = [np.full(k.shape, np.nan)] * 4
    if seed is not None:
        simulated = simulate_sam(
            setting,
            k,
            eta=eta,
            rho=rho,
            subsets=subsets,
            matrices=resolution.matrices,
            seed=seed,
        )
        seen = [getattr(simulated, field.name) for field in fields(simulated)]
    ratio = setting.ratio / subsets
    bounds = said.sharpness_upper, said.sharpness_lower
    return Curve(
        method, k, eta, rho, stable(eta, rho, ratio), said.diversity, *bounds, *seen
    )


def _settings(size: Size) -> dict[str, Any]:
    resolution = RESOLUTIONS[size]
    return {
        **{name: float(value) for name, value in asdict(resolution.setting).items()},
        "repetitions": resolution.matrices,
        "seeds": [SEED],
        "precision": "float64",
        "points of a curve": resolution.points,
        DIFFERS: differing(__doc__),
    }


def figure2_panels(resolution: Resolution) -> Lettered:
    """Return the published radii, stable ones, and both methods equally sharp."""
    limit = float(largest_stable_rho(ETA, resolution.setting.ratio))
    ends = ((0.5, 0.3), (limit, 0.0))
    points = [(3, ETA, np.linspace(*pair, resolution.points)) for pair in ends]
    published, stable = curves_at("SAM", points, resolution)
    shown = [
        Panel("as published, k = 3, rho 0.5 to 0.3", (published,)),
        Panel(f"stable, k = 3, rho {limit:.2f} to 0", (stable,)),
        *matched([3], resolution),
    ]
    return [("", panel) for panel in shown]


def figure9_panels(resolution: Resolution) -> Lettered:
    """Return both panels, and both methods equally sharp."""
    radii, steps = np.linspace(1.0, 0.4, resolution.points), np.arange(1, 16)
    points: list[Place] = [(5, ETA, radii), (steps, ETA, 0.4)]
    first, second = curves_at("SharpBalance", points, resolution)
    (ours,) = matched([5], resolution)
    return [
        ("a", Panel("(a) k = 5, rho 1 to 0.4", (first,))),
        ("b", Panel("(b) rho = 0.4, k 1 to 15", (second,))),
        ("", ours),
    ]


PANELS: Mapping[str, Callable[[Resolution], Lettered]] = {
    "figure2": figure2_panels,
    "figure9": figure9_panels,
    "figure10": partial(by_steps, "SAM", (2, 4, 8), (0.1, 0.05, 0.01)),
    "figure11": partial(by_steps, "SharpBalance", (4, 8, 12), (0.5, 0.3, 0.1)),
}
WHOLE = "Theorem {} beside simulation, over steps and step sizes"
RECIPES = {
    name: theory_recipe(f"sharpbalance/{name}", title, PANELS[name], letters)
    for name, title, letters in (
        ("figure2", "Theorem 1 beside simulation", ""),
        ("figure9", "Theorem 2 beside simulation", "ab"),
        ("figure10", WHOLE.format(1), "abcdefghi"),
        ("figure11", WHOLE.format(2), "abcdefghi"),
    )
}
