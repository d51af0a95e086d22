"""Draw diversity against sharpness over SAM's radius, beyond Gaussian quadratics.

PYTHONPATH=src python3 research/theory_beyond.py [FOLDER]
"""

import csv
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.ticker
import numpy as np

from tepui.report.drawing import COLORS
from tepui.theory import Setting, simulate_losses

mpl.use("Agg")
import matplotlib.pyplot as plt

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
SETTING = Setting(rho0=0.01, n=1000, d=50, sigma2=0.1, theta_norm=15**0.5)
STEPS = 3
# Title: loss, degrees of freedom, and for every step size the largest radius.
PANELS = {
    "quadratic, Gaussian data": ("quadratic", None, {0.001: 0.03, 0.01: 0.14}),
    "quadratic, heavy tails": ("quadratic", 3, {0.001: 0.03, 0.01: 0.01}),
    "logistic, Gaussian data": ("logistic", None, {0.01: 2, 0.05: 2, 0.3: 2}),
    "logistic, heavy tails": ("logistic", 3, {0.01: 2, 0.05: 2, 0.3: 2}),
}


def main():
    canvas, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained")
    rows = []
    for axis, (title, (loss, freedom, etas)) in zip(axes, PANELS.items(), strict=True):
        for (eta, largest), color in zip(etas.items(), COLORS, strict=False):
            radii = largest * np.linspace(0, 1, 9) ** 1.5
            how = {"loss": loss, "freedom": freedom, "matrices": 30}
            seen = simulate_losses(SETTING, STEPS, eta=eta, rho=radii, **how)
            draw(axis, seen, f"η = {eta:g}, radius to {largest:g}", color)
            rows += [
                {"panel": title, "eta": eta, "rho": rho, **at}
                for rho, at in zip(radii, points(seen), strict=True)
            ]
        axis.set(title=title, xlabel="sharpness", xscale="log", yscale="log")
        axis.xaxis.set_minor_formatter(mpl.ticker.NullFormatter())
        axis.legend(fontsize=7)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("diversity")
    options = {"dpi": 110, "metadata": {"Software": None}}
    canvas.savefig(FOLDER / "beyond_quadratics.png", **options)
    with (FOLDER / "beyond_quadratics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def points(seen):
    names = ("diversity", "diversity_error", "sharpness", "sharpness_error")
    columns = [[f"{value:.6g}" for value in getattr(seen, name)] for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def draw(axis, seen, label, color):
    """Full marks where both fall together, hollow ones where diversity rises."""
    x, y = seen.sharpness, seen.diversity
    axis.plot(x, y, color=color, linewidth=0.9, label=label)
    together = np.append([True], np.diff(x) * np.diff(y) > 0)
    for chosen, fill in ((together, color), (~together, "white")):
        axis.plot(x[chosen], y[chosen], "o", color=color, markerfacecolor=fill)


if __name__ == "__main__":
    main()
