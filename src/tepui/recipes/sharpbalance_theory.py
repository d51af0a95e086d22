"""Figures 1b, 2, 9, 10 and 11 of SharpBalance: theory beside simulation.

Random data of 3000 x 150, 50 repetitions; teacher and initial weights of variance 0.1;
sharpness within 0.01. Ranges are the paper's and, where it is silent (1b; steps and
step sizes of 2 and 9), those of its notebook; figure 11 takes the radii of figure 10.
Every figure marks the divergent regime and ends in a comparison that the paper does not
make: both methods stable and equally sharp.

Measured: docs/theory.md.

References:
    Lu et al., Sharpness-diversity tradeoff: improving flat ensembles with SharpBalance,
    NeurIPS 2024, Section 3 and Appendix C.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tepui.recipes.writing import free_paths
from tepui.report.figures import COLOURS, as_png, as_svg
from tepui.report.trade_offs import Curve, Panel, trade_off_figure, trade_off_table
from tepui.storage import replacing
from tepui.theory import (
    Setting,
    eta_at_sharpness,
    largest_stable_rho,
    simulate_subset_sam,
    stable,
    theorem1,
    theorem2,
)

SUBSETS = {"SAM": 1, "SharpBalance": 10}
ETA = 0.01
MATCHED_RHO = (0.4, 0.0)
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = COLOURS[:6]
METHOD_COLOURS = {
    "SAM": BLUE,
    "SAM, rho = 0.4": GREEN,
    "SAM, rho = 0": SKY,
    "SharpBalance": VERMILION,
    "SharpBalance, rho = 0.4": PURPLE,
    "SharpBalance, rho = 0": ORANGE,
}


class Scale(NamedTuple):
    """How large a figure's data are and how finely it is drawn.

    Attributes:
        setting: Size of the data, variances and radii.
        matrices: Repetitions.
        points: Points per curve.
    """

    setting: Setting
    matrices: int
    points: int


FULL = Scale(Setting(rho0=0.01, n=3000, d=150, sigma2=0.1, theta_norm=15**0.5), 50, 20)
QUICK = Scale(Setting(rho0=0.01, n=240, d=12, sigma2=0.1, theta_norm=1.2**0.5), 3, 4)


def figure1b(
    out: str | Path, *, quick: bool = False, seed: int = 0, overwrite: bool = False
) -> list[Path]:
    """Write figure 1b: SAM and SharpBalance by their theorems.

    Args:
        out: The folder.
        quick: Small data and few points, for tests.
        seed: What all draws derive from.
        overwrite: Replace files that are there.

    Returns:
        The SVG, PNG and CSV files.

    Raises:
        FileExistsError: If a file is there and ``overwrite`` is false.
    """
    paths = _vacant("figure1b", out, overwrite)
    scale = QUICK if quick else FULL
    published = Panel("as published, k = 3", figure1b_curves(scale))
    return _write([[published, *_matched([3], scale, seed)]], paths)


def figure1b_curves(scale: Scale) -> tuple[Curve, ...]:
    """Return the curves of figure 1b as published.

    Args:
        scale: Size of the data and points per curve.

    Returns:
        SAM's and SharpBalance's, by their theorems.
    """
    radii = {"SAM": (0.255, 0.24), "SharpBalance": (1.5, 0.01)}
    return tuple(
        _curve(method, 3, ETA, np.linspace(*ends, scale.points), scale, None)
        for method, ends in radii.items()
    )


def figure2(
    out: str | Path, *, quick: bool = False, seed: int = 0, overwrite: bool = False
) -> list[Path]:
    """Write figure 2: Theorem 1 beside simulation.

    Args:
        out: The folder.
        quick: Small data and few points, for tests.
        seed: What all draws derive from.
        overwrite: Replace files that are there.

    Returns:
        The SVG, PNG and CSV files.

    Raises:
        FileExistsError: If a file is there and ``overwrite`` is false.
    """
    paths = _vacant("figure2", out, overwrite)
    scale = QUICK if quick else FULL
    published = np.linspace(0.5, 0.3, scale.points)
    limit = float(largest_stable_rho(ETA, scale.setting["n"] / scale.setting["d"]))
    within = np.linspace(limit, 0, scale.points)
    curve = _curve("SAM", 3, ETA, np.append(published, within), scale, seed)
    first, second = (
        curve.part(slice(scale.points)),
        curve.part(slice(scale.points, None)),
    )
    panels = [
        Panel("as published, k = 3, rho 0.5 to 0.3", (first,)),
        Panel(f"stable, k = 3, rho {limit:.2f} to 0", (second,)),
        *_matched([3], scale, seed),
    ]
    return _write([panels], paths)


def figure9(
    out: str | Path, *, quick: bool = False, seed: int = 0, overwrite: bool = False
) -> list[Path]:
    """Write figure 9: Theorem 2 beside simulation, over radii and over steps.

    Args:
        out: The folder.
        quick: Small data and few points, for tests.
        seed: What all draws derive from.
        overwrite: Replace files that are there.

    Returns:
        The SVG, PNG and CSV files.

    Raises:
        FileExistsError: If a file is there and ``overwrite`` is false.
    """
    paths = _vacant("figure9", out, overwrite)
    scale = QUICK if quick else FULL
    radii, steps = np.linspace(1.0, 0.4, scale.points), np.arange(1, 16)
    k = np.append(np.full(scale.points, 5), steps)
    rho = np.append(radii, np.full(len(steps), 0.4))
    curve = _curve("SharpBalance", k, ETA, rho, scale, seed)
    first, rest = slice(scale.points), slice(scale.points, None)
    panels = [
        Panel("(a) k = 5, rho 1 to 0.4", (curve.part(first),)),
        Panel("(b) rho = 0.4, k 1 to 15", (curve.part(rest),)),
        *_matched([5], scale, seed),
    ]
    return _write([panels], paths)


def figure10(
    out: str | Path, *, quick: bool = False, seed: int = 0, overwrite: bool = False
) -> list[Path]:
    """Write figure 10: Theorem 1 beside simulation over steps and step sizes.

    Args:
        out: The folder.
        quick: Small data and few points, for tests.
        seed: What all draws derive from.
        overwrite: Replace files that are there.

    Returns:
        The SVG, PNG and CSV files.

    Raises:
        FileExistsError: If a file is there and ``overwrite`` is false.
    """
    paths = _vacant("figure10", out, overwrite)
    scale = QUICK if quick else FULL
    steps = (2,) if quick else (2, 4, 8)
    panels = _by_steps("SAM", steps, (0.1, 0.05, 0.01), scale, seed)
    return _write(panels, paths)


def figure11(
    out: str | Path, *, quick: bool = False, seed: int = 0, overwrite: bool = False
) -> list[Path]:
    """Write figure 11: Theorem 2 beside simulation over steps and step sizes.

    Args:
        out: The folder.
        quick: Small data and few points, for tests.
        seed: What all draws derive from.
        overwrite: Replace files that are there.

    Returns:
        The SVG, PNG and CSV files.

    Raises:
        FileExistsError: If a file is there and ``overwrite`` is false.
    """
    paths = _vacant("figure11", out, overwrite)
    scale = QUICK if quick else FULL
    steps = (4,) if quick else (4, 8, 12)
    panels = _by_steps("SharpBalance", steps, (0.5, 0.3, 0.1), scale, seed)
    return _write(panels, paths)


def _by_steps(
    method: str,
    steps: Sequence[int],
    etas: Sequence[float],
    scale: Scale,
    seed: int,
) -> list[list[Panel]]:
    """Return a row per number of steps: a panel per step size, then matched."""
    rho = np.linspace(0.5, 0.3, scale.points)
    k = np.reshape(steps, (-1, 1, 1))
    curve = _curve(method, k, np.reshape(etas, (-1, 1)), rho, scale, seed)
    cells = [(step, eta) for step in steps for eta in etas]
    panels = [
        Panel(
            f"k = {step}, eta = {eta}, rho 0.5 to 0.3",
            (curve.part(slice(cell * len(rho), (cell + 1) * len(rho))),),
            logarithmic=True,
        )
        for cell, (step, eta) in enumerate(cells)
    ]
    width = len(etas)
    return [
        [*panels[row * width : (row + 1) * width], matched]
        for row, matched in enumerate(_matched(steps, scale, seed))
    ]


def _matched(steps: Sequence[int], scale: Scale, seed: int) -> list[Panel]:
    """Return a panel per number of steps: both methods stable and equally sharp."""
    setting = scale.setting
    start = theorem1(0, eta=0, rho=0, **setting).sharpness_upper
    wanted = start * np.linspace(0.95, 0.1, scale.points)
    curves: dict[int, list[Curve]] = {step: [] for step in steps}
    for method, subsets in SUBSETS.items():
        lines = [(step, rho) for step in steps for rho in MATCHED_RHO]
        etas = [
            eta_at_sharpness(wanted, step, rho=rho, subsets=subsets, **setting)
            for step, rho in lines
        ]
        reached = [eta[~np.isnan(eta)] for eta in etas]
        counts = [len(eta) for eta in reached]
        k, rho = np.repeat(np.array(lines), counts, axis=0).T
        whole = _curve(method, k, np.concatenate(reached), rho, scale, seed)
        ends = np.cumsum(counts)
        for (step, radius), end, count in zip(lines, ends, counts, strict=True):
            part = whole.part(slice(end - count, end))
            name = f"{method}, rho = {radius:g}"
            no_bound = np.full(count, np.nan)
            curves[step].append(replace(part, method=name, sharpness_lower=no_bound))
    return [
        Panel(f"equally sharp, stable, k = {step}", tuple(found))
        for step, found in curves.items()
    ]


def _curve(
    method: str,
    k: ArrayLike,
    eta: ArrayLike,
    rho: ArrayLike,
    scale: Scale,
    seed: int | None,
) -> Curve:
    """Return theory and, where a seed is given, simulation at all points, flattened."""
    subsets, setting = SUBSETS[method], scale.setting
    k, eta, rho = (part.ravel() for part in np.broadcast_arrays(k, eta, rho))
    if subsets == 1:
        said = theorem1(k, eta=eta, rho=rho, **setting)
    else:
        said = theorem2(k, eta=eta, rho=rho, subsets=subsets, **setting)
    seen = [np.full(k.shape, np.nan)] * 4
    if seed is not None:
        simulated = simulate_subset_sam(
            k,
            eta=eta,
            rho=rho,
            subsets=subsets,
            matrices=scale.matrices,
            seed=seed,
            **setting,
        )
        seen = [getattr(simulated, field.name) for field in fields(simulated)]
    ratio = setting["n"] / setting["d"] / subsets
    bounds = said.sharpness_upper, said.sharpness_lower
    return Curve(
        method, k, eta, rho, stable(eta, rho, ratio), said.diversity, *bounds, *seen
    )


def _vacant(name: str, out: str | Path, overwrite: bool) -> list[Path]:
    """Return the files of a figure, before the work begins."""
    names = [f"{name}.{ending}" for ending in ("svg", "png", "csv")]
    return free_paths(out, names, overwrite=overwrite)


def _write(panels: list[list[Panel]], paths: list[Path]) -> list[Path]:
    figure = trade_off_figure(panels, METHOD_COLOURS)
    contents = (
        as_svg(figure).encode(),
        as_png(figure),
        trade_off_table(panels).encode(),
    )
    for path, content in zip(paths, contents, strict=True):
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    return paths
