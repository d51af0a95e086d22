"""Draw the pictures of docs/measures from measurements of small networks on digits.

PYTHONPATH=src python3 docs/make_measure_pictures.py
"""

from functools import partial
from pathlib import Path

import matplotlib as mpl
import torch

import tepui
from tepui import sharpness
from tepui.data import Arrays, Digits
from tepui.losses import cross_entropy
from tepui.methods import SAM, DeepEnsemble
from tepui.models import MLP, ConvNet

mpl.use("Agg")
import matplotlib.pyplot as plt

FOLDER = Path(__file__).parent / "images" / "measures"
COLORS = {"SGD": "#D55E00", "SAM": "#0072B2"}
DATA = Digits()
RADII = [0.1, 0.2, 0.4, 0.8, 1.6]


def figure(title, x, y, size=(5.2, 3.4)):
    canvas, axes = plt.subplots(figsize=size, layout="constrained")
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.grid(alpha=0.3)
    return canvas, axes


def logarithmic(axes, xs=None, ys=True):
    """Use log scales, with labels at the values given along x."""
    axes.set_xscale("log")
    if ys:
        axes.set_yscale("log")
    if xs is not None:
        axes.set_xticks(xs, [f"{x:g}" for x in xs])
        axes.set_xticks([], minor=True)


def save(canvas, name):
    FOLDER.mkdir(parents=True, exist_ok=True)
    canvas.savefig(FOLDER / f"{name}.png", dpi=110, metadata={"Software": None})
    plt.close(canvas)


def trained(method):
    ensemble = tepui.Ensemble.build(ConvNet, members=3, seed=13)
    how = {"schedule": tepui.MultiStep(), "progress": "none"}
    tepui.fit(ensemble, DATA, method=method, epochs=12, **how)
    return ensemble


def trajectory(epochs=24, learning_rate=0.05):
    """Train one network plainly, and measure it after every epoch."""
    torch.manual_seed(0)
    model = ConvNet()
    x, y = DATA.prepare(DATA.inputs), DATA.targets
    optimizer = torch.optim.SGD(model.parameters(), learning_rate, momentum=0.9)
    rows = []
    for _ in range(epochs):
        model.train()
        for batch in torch.randperm(len(y)).split(64):
            optimizer.zero_grad()
            cross_entropy(model(x[batch]), y[batch]).mean().backward()
            optimizer.step()
        with torch.no_grad():
            loss = float(cross_entropy(model.eval()(x), y).mean())
        rows.append(
            {
                "loss": loss,
                "fisher_rao": sharpness.fisher_rao(model, DATA).value,
                "ntk_logdet": sharpness.ntk_logdet(model, DATA, num_samples=100).value,
            }
        )
    return rows


def against_radius(ensembles, measure, name, title, label):
    canvas, axes = figure(title, "radius ρ", label)
    for kind, ensemble in ensembles.items():
        found = [
            tepui.measure(ensemble, DATA, {name: partial(measure, rho=rho)})[name]
            for rho in RADII
        ]
        axes.errorbar(
            RADII,
            [each.mean for each in found],
            [each.standard_error for each in found],
            color=COLORS[kind],
            marker="o",
            capsize=3,
            label=f"trained with {kind}",
        )
    logarithmic(axes, RADII)
    axes.legend()
    save(canvas, name)


def worst_case(ensembles):
    measure = partial(sharpness.worst_case, num_samples=100)
    title = "Worst-case sharpness, adaptive l2"
    against_radius(ensembles, measure, "worst_case", title, "largest rise in loss")


def average_case(ensembles):
    title = "Average-case sharpness, adaptive"
    label = "mean rise in loss"
    against_radius(ensembles, sharpness.average_case, "average_case", title, label)


def sam_sharpness(ensembles):
    member = ensembles["SGD"].members[0]
    radii = [0.002, 0.005, 0.01, 0.02, 0.05]
    found = [
        sharpness.sam_sharpness(member, DATA, rho=rho, num_draws=50) for rho in radii
    ]
    trace = sharpness.hessian_trace(member, DATA, num_samples=None, num_probes=30).value
    canvas, axes = figure(
        "SAM-sharpness and the Hessian's trace", "radius ρ", "mean change of the loss"
    )
    axes.errorbar(
        radii,
        [each.value for each in found],
        [each.standard_error for each in found],
        color=COLORS["SGD"],
        marker="o",
        capsize=3,
        label="measured, elementwise, 50 draws",
    )
    curve = [0.5 * rho**2 * trace for rho in radii]
    axes.plot(radii, curve, "k--", label="½ ρ² tr H")
    logarithmic(axes, radii)
    axes.legend()
    save(canvas, "sam_sharpness")


def fisher_rao(rows):
    canvas, axes = figure(
        "The norm falls with the training loss", "mean training loss", "Fisher-Rao norm"
    )
    points = axes.scatter(
        [row["loss"] for row in rows],
        [row["fisher_rao"] for row in rows],
        c=range(1, len(rows) + 1),
        cmap="viridis",
    )
    logarithmic(axes)
    axes.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5], ["0.02", "0.05", "0.1", "0.2", "0.5"])
    axes.set_yticks([], minor=True)
    axes.invert_xaxis()
    canvas.colorbar(points, label="epoch")
    save(canvas, "fisher_rao")


def relative_flatness():
    """Scale features against the last layer: the function stays."""
    data = Arrays(DATA.prepare(DATA.inputs).flatten(1), DATA.targets)
    factors, flatness, traces = [0.25, 0.5, 1.0, 2.0, 4.0], [], []
    for factor in factors:
        torch.manual_seed(0)
        model = MLP(64, (32,), 10)
        with torch.no_grad():
            for each in model.layers.parameters():  # weights and bias of one layer
                each.mul_(factor)
            model.classifier.weight /= factor
        flatness.append(sharpness.relative_flatness(model, data).value)
        traces.append(sharpness.hessian_trace(model, data, num_probes=30).value)
    canvas, axes = figure(
        "One function, five parametrizations",
        "features × c, last layer ÷ c",
        "relative to c = 1",
    )
    axes.plot(factors, [v / traces[2] for v in traces], "o-", label="Hessian trace")
    axes.plot(
        factors, [v / flatness[2] for v in flatness], "s-", label="relative flatness"
    )
    logarithmic(axes, factors)
    axes.legend()
    save(canvas, "relative_flatness")


def hessian_trace():
    """A network small enough for its whole Hessian."""
    torch.manual_seed(0)
    x = DATA.prepare(DATA.inputs).flatten(1)[:200, ::4]
    data = Arrays(x, DATA.targets[:200])
    model = MLP(16, (8,), 10)
    names = [name for name, _ in model.named_parameters()]
    values = tuple(p.detach() for p in model.parameters())

    def loss(*parts):
        own = dict(zip(names, parts, strict=True))
        outputs = torch.func.functional_call(model, own, (x,))
        return cross_entropy(outputs, data.targets).mean()

    blocks = torch.autograd.functional.hessian(loss, values)
    exact = sum(
        float(block.view(p.numel(), p.numel()).trace())
        for block, p in zip(
            (row[i] for i, row in enumerate(blocks)), values, strict=True
        )
    )
    counts = [2, 4, 8, 16, 32, 64, 128]
    found = [sharpness.hessian_trace(model, data, num_probes=count) for count in counts]
    canvas, axes = figure("Hutchinson's estimate", "probes", "trace of the Hessian")
    axes.axhline(exact, color="k", linestyle="--", label="dense Hessian")
    axes.errorbar(
        counts,
        [each.value for each in found],
        [each.standard_error for each in found],
        marker="o",
        capsize=3,
        label="estimate ± standard error",
    )
    logarithmic(axes, counts, ys=False)
    axes.legend()
    save(canvas, "hessian_trace")


def hessian_eigenvalues(ensembles):
    canvas, axes = figure("The ten largest eigenvalues", "rank", "eigenvalue")
    for offset, (kind, ensemble) in zip((-0.2, 0.2), ensembles.items(), strict=True):
        found = sharpness.hessian_eigenvalues(
            ensemble.members[0], DATA, num_eigenvalues=10, num_samples=300
        )
        axes.bar(
            [rank + offset for rank in range(1, 11)],
            [each.value for each in found],
            0.4,
            color=COLORS[kind],
            label=f"trained with {kind}",
        )
    axes.set_xticks(range(1, 11))
    axes.legend()
    save(canvas, "hessian_eigenvalues")


def sample_fisher_trace(ensembles):
    canvas, axes = figure(
        "Fisher trace of every training sample", "squared gradient norm", "samples"
    )
    bins = [10 ** (power / 4) for power in range(-60, 13)]
    for kind, ensemble in ensembles.items():
        scores = sharpness.sample_fisher_trace(ensemble.members[0], DATA)
        axes.hist(
            scores.tolist(),
            bins,
            color=COLORS[kind],
            alpha=0.6,
            label=f"trained with {kind}",
        )
    axes.set_xscale("log")
    axes.legend()
    save(canvas, "fisher_trace")


def input_curvature(ensembles):
    member = ensembles["SGD"].members[0]
    order = sharpness.sample_input_curvature(member, DATA).argsort()
    canvas, grid = plt.subplots(2, 8, figsize=(6.4, 2.2), layout="constrained")
    for row, rows, name in zip(
        grid, (order[:8], order.flip(0)[:8]), ("lowest", "highest"), strict=True
    ):
        for axes, index in zip(row, rows.tolist(), strict=True):
            axes.imshow(DATA.inputs[index, 0], cmap="gray_r")
            axes.set(xticks=[], yticks=[], title=f"{int(DATA.targets[index])}")
        row[0].set_ylabel(name)
    canvas.suptitle("Curvature of the loss around each digit, and its label")
    save(canvas, "input_curvature")


def ntk_logdet(rows):
    canvas, axes = figure(
        "The tangent kernel of five samples", "epoch", "log-determinant"
    )
    axes.plot(range(1, len(rows) + 1), [row["ntk_logdet"] for row in rows], "o-")
    save(canvas, "ntk_logdet")


def cka(ensembles):
    canvas, grid = plt.subplots(1, 2, figsize=(5.6, 2.8), layout="constrained")
    tables = {
        kind: sharpness.pairwise_cka(ensemble.members, DATA)
        for kind, ensemble in ensembles.items()
    }
    lowest = min(float(table.min()) for table in tables.values())
    for axes, (kind, table) in zip(grid, tables.items(), strict=True):
        shown = axes.imshow(table, vmin=lowest, vmax=1, cmap="viridis")
        for i in range(3):
            for j in range(3):
                light = float(table[i, j]) < (1 + lowest) / 2
                axes.text(
                    j,
                    i,
                    f"{table[i, j]:.2f}",
                    ha="center",
                    va="center",
                    color="white" if light else "black",
                )
        axes.set(
            title=f"trained with {kind}",
            xticks=range(3),
            yticks=range(3),
            xlabel="member",
        )
    grid[0].set_ylabel("member")
    canvas.colorbar(shown, ax=grid, label="linear CKA")
    save(canvas, "cka")


def main():
    ensembles = {"SGD": trained(DeepEnsemble()), "SAM": trained(SAM(rho=0.1))}
    for draw in (
        worst_case,
        average_case,
        sam_sharpness,
        hessian_eigenvalues,
        sample_fisher_trace,
        input_curvature,
        cka,
    ):
        draw(ensembles)
    rows = trajectory()
    fisher_rao(rows)
    ntk_logdet(rows)
    relative_flatness()
    hessian_trace()


if __name__ == "__main__":
    main()
