"""Draw the pictures of docs/measures that show measures of predictions.

Small networks on digits 0 to 7: eight members trained with SGD, eight with SAM. The
familiar test samples are digits 0 to 7, clean or corrupted; the unfamiliar ones are the
digits 8 and 9, which no network has seen.

PYTHONPATH=src python3 docs/make_prediction_pictures.py
"""

from pathlib import Path

import matplotlib as mpl
import torch

import tepui
from tepui import metrics
from tepui.data import Digits, corrupted
from tepui.ensembles.outputs import dataset_logits
from tepui.methods import SAM, DeepEnsemble
from tepui.models import ConvNet
from tepui.sharpness import sample_fisher_trace
from tepui.studies import tradeoff_slope

mpl.use("Agg")
import matplotlib.pyplot as plt

FOLDER = Path(__file__).parent / "images" / "measures"
COLORS = {"SGD": "#D55E00", "SAM": "#0072B2"}
FAMILIAR, UNFAMILIAR, THIRD = "#0072B2", "#D55E00", "#009E73"
SEVERITIES = range(6)


def known(data):
    return data.subset((data.targets < 8).nonzero()[:, 0])


TRAIN, TEST = known(Digits()), known(Digits(train=False))


def figure(title, x, y, size=(5.2, 3.4)):
    canvas, axes = plt.subplots(figsize=size, layout="constrained")
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.grid(alpha=0.3)
    return canvas, axes


def save(canvas, name):
    FOLDER.mkdir(parents=True, exist_ok=True)
    canvas.savefig(FOLDER / f"{name}.png", dpi=110, metadata={"Software": None})
    plt.close(canvas)


def trained(method, members):
    ensemble = tepui.Ensemble.build(lambda: ConvNet(8), members, seed=13)
    how = {"schedule": tepui.MultiStep(), "progress": "none"}
    tepui.fit(ensemble, TRAIN, method=method, epochs=12, **how)
    return ensemble


def unfamiliar_logits(ensemble):
    parts = []
    for data in (Digits(), Digits(train=False)):
        strange = data.subset((data.targets >= 8).nonzero()[:, 0])
        parts.append(dataset_logits(ensemble, strange)[0])
    return torch.cat(parts, dim=1)


def cells_by_severity(ensemble):
    """Logits and labels of each corruption, by severity; severity 0 is clean."""
    cells = {0: [dataset_logits(ensemble, TEST)]}
    for (_, severity), data in corrupted(TEST).items():
        cells.setdefault(severity, []).append(dataset_logits(ensemble, data))
    return cells


def pooled(cells):
    return torch.cat([x for x, _ in cells], dim=1), torch.cat([y for _, y in cells])


def by_severity(name, title, label, lines):
    """Draw lines of (label, style, values over severities)."""
    canvas, axes = figure(title, "severity of the corruption", label)
    for text, style, values in lines:
        axes.plot(SEVERITIES, [float(value) for value in values], **style, label=text)
    axes.set_xticks(SEVERITIES, ["clean", *map(str, list(SEVERITIES)[1:])])
    axes.legend()
    save(canvas, name)


def style(color, marker="o", line="-"):
    return {"color": color, "marker": marker, "linestyle": line}


def of_both(data, metric):
    return [
        (f"trained with {kind}", style(COLORS[kind]), [metric(*each) for each in rows])
        for kind, rows in data.items()
    ]


def accuracies(data):
    lines = []
    for kind, rows in data.items():
        alone = [metrics.individual_accuracy(*each).mean() for each in rows]
        joint = [metrics.accuracy(*each) for each in rows]
        lines.append((f"{kind}, ensemble of 8", style(COLORS[kind]), joint))
        lines.append((f"{kind}, members", style(COLORS[kind], "s", "--"), alone))
    by_severity("accuracy", "Accuracy", "share of right predictions", lines)


def likelihoods(data):
    rows = data["SGD"]
    alone = [sum(metrics.nll(m[None], y) for m in x) / len(x) for x, y in rows]
    lines = [
        ("members", style(UNFAMILIAR, "s", "--"), alone),
        (
            "mean of logits",
            style(THIRD),
            [metrics.nll(x, y, rule="logit") for x, y in rows],
        ),
        (
            "mean of probabilities",
            style(FAMILIAR),
            [metrics.nll(*each) for each in rows],
        ),
    ]
    by_severity("nll", "Negative log-likelihood", "nats", lines)


def reliability(logits, labels):
    canvas, axes = figure("Reliability, severity 3", "confidence", "accuracy", (4.2, 4))
    axes.plot([0, 1], [0, 1], "k--", linewidth=1)
    for text, color, marker, x in (
        ("ensemble of 8", FAMILIAR, "o", logits),
        ("one member", UNFAMILIAR, "s", logits[:1]),
    ):
        bins = metrics.reliability(x, labels, binning="equal_mass")
        error = metrics.ece(x, labels, binning="equal_mass")
        axes.plot(
            bins.confidence,
            bins.accuracy,
            color=color,
            marker=marker,
            label=f"{text}, ECE {error:.3f}",
        )
    axes.legend()
    save(canvas, "ece")


def selective(logits, labels):
    canvas, axes = figure(
        "Answering only where sure, severity 3", "share answered", "error among these"
    )
    for text, color, x in (
        ("ensemble of 8", FAMILIAR, logits),
        ("one member", UNFAMILIAR, logits[:1]),
    ):
        curve, area = metrics.selective_curve(x, labels), metrics.aurc(x, labels)
        axes.plot(*curve, color=color, label=f"{text}, AURC {area:.3f}")
    axes.legend()
    save(canvas, "aurc")


def temperatures(logits, labels):
    held_out = torch.arange(len(labels)) % 2 == 0
    fitted = metrics.temperature(logits[:, held_out], labels[held_out])
    values = torch.logspace(-0.4, 1, 40)
    canvas, axes = figure("Severity 3, ensemble of 8", "temperature", "NLL in nats")
    for text, rows, color in (
        ("held-out half", held_out, FAMILIAR),
        ("other half", ~held_out, UNFAMILIAR),
    ):
        losses = [metrics.nll(logits[:, rows] / t, labels[rows]) for t in values]
        axes.plot(values, losses, color=color, label=text)
    axes.axvline(
        float(fitted), color="k", linestyle="--", label=f"fitted: {fitted:.2f}"
    )
    axes.set_xscale("log")
    axes.set_xticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
    axes.set_xticks([], minor=True)
    axes.legend()
    save(canvas, "temperature")


def disagreement(data):
    canvas, grid = plt.subplots(1, 2, figsize=(6.4, 3), layout="constrained")
    tables = {k: metrics.pairwise_disagreement(rows[3][0]) for k, rows in data.items()}
    highest = max(float(table.max()) for table in tables.values())
    for axes, (kind, table) in zip(grid, tables.items(), strict=True):
        shown = axes.imshow(table, vmin=0, vmax=highest, cmap="viridis")
        axes.set(title=f"trained with {kind}", xlabel="member")
    grid[0].set_ylabel("member")
    canvas.colorbar(shown, ax=grid, label="share that differs, severity 3")
    save(canvas, "disagreement")


def ders(cells):
    lines = []
    for kind, rows in cells.items():
        whole = [metrics.der(*pooled(rows[s])) for s in SEVERITIES]
        lines.append((f"{kind}, pooled", style(COLORS[kind]), whole))
        each = [[metrics.der(*cell) for cell in rows[s]] for s in SEVERITIES]
        means = [sum(ratios) / len(ratios) for ratios in each]
        text = f"{kind}, mean of ratios"
        lines.append((text, style(COLORS[kind], "s", "--"), means))
    by_severity("der", "Disagreement-error ratio", "disagreement / error", lines)


def eirs(data):
    colors = dict(zip(("probability", "logit", "vote"), COLORS.values(), strict=False))
    colors["vote"] = THIRD
    lines = [
        (rule, style(color), [metrics.eir(*each, rule=rule) for each in data["SGD"]])
        for rule, color in colors.items()
    ]
    by_severity("eir", "Ensemble improvement rate", "share of the error removed", lines)


def unique(data):
    canvas, axes = figure(
        "Different predictions of 8 members", "number", "samples in %"
    )
    for offset, severity, color in (
        (-0.25, 0, FAMILIAR),
        (0, 3, THIRD),
        (0.25, 5, UNFAMILIAR),
    ):
        predicted = metrics.predictions(data["SGD"][severity][0])
        numbers = torch.tensor([len(set(column.tolist())) for column in predicted.T])
        shares = [100 * float((numbers == n).double().mean()) for n in range(1, 9)]
        mean = metrics.unique_predictions(data["SGD"][severity][0])
        text = "clean" if severity == 0 else f"severity {severity}"
        axes.bar(
            [n + offset for n in range(1, 9)],
            shares,
            0.25,
            color=color,
            label=f"{text}, mean {mean:.2f}",
        )
    axes.set(yscale="log", xlim=(0.5, 6.5))
    axes.legend()
    save(canvas, "unique_predictions")


SCORES = {
    "max_mean_probability": "largest mean probability",
    "pds": "predictive diversity score",
    "entropy": "entropy in nats",
    "mutual_information": "mutual information in nats",
    "energy": "energy",
    "max_logit": "mean largest logit",
    "predictive_variance": "variance of the probabilities",
}


def scores(inside, outside):
    for name, label in SCORES.items():
        values = [getattr(metrics, name)(x) for x in (inside, outside)]
        area = metrics.auroc(
            *(metrics.ood_scores(x, [name])[name] for x in (inside, outside))
        )
        canvas, axes = figure(f"AUROC {area:.3f}", label, "samples in %")
        low, high = (float(bound) for bound in torch.cat(values).aminmax())
        for text, color, each in (
            ("digits 0 to 7", FAMILIAR, values[0]),
            ("digits 8 and 9, never seen", UNFAMILIAR, values[1]),
        ):
            axes.hist(
                each.tolist(),
                bins=30,
                range=(low, high),
                weights=[100 / len(each)] * len(each),
                color=color,
                alpha=0.6,
                label=text,
            )
        if name not in ("energy", "max_logit"):
            axes.set_yscale("log")
        axes.legend()
        save(canvas, name)


def roc(inside, outside):
    canvas, axes = figure(
        "Unseen digits, ensemble of 8", "false alarms", "unfamiliar found", (4.2, 4)
    )
    axes.plot([0, 1], [0, 1], "k--", linewidth=1)
    first, second = metrics.ood_scores(inside), metrics.ood_scores(outside)
    for name, color in (
        ("pds", FAMILIAR),
        ("max_mean_probability", UNFAMILIAR),
        ("energy", THIRD),
    ):
        low, high = first[name], second[name]
        edges = torch.cat([low, high]).unique().flip(0)
        axes.plot(
            [0, *[float((low >= edge).double().mean()) for edge in edges]],
            [0, *[float((high >= edge).double().mean()) for edge in edges]],
            color=color,
            label=f"{name}, AUROC {metrics.auroc(low, high):.3f}",
        )
    axes.set(xlim=(-0.01, 0.25), ylim=(0.4, 1.02))
    axes.legend()
    save(canvas, "auroc")


def precision(inside, outside):
    low, high = (1 - metrics.max_mean_probability(x) for x in (inside, outside))
    counts = [4, 8, 16, 32, 64, 128, 256, len(high)]
    shares = [n / (n + len(low)) for n in counts]
    spread = [high[:: len(high) // n][:n] for n in counts]
    canvas, axes = figure(
        "The same score, other mixtures", "share of unfamiliar samples", "area"
    )
    for text, color, metric in (
        ("AUROC", THIRD, metrics.auroc),
        ("AUPR, positive='ood'", UNFAMILIAR, metrics.aupr),
        (
            "AUPR, positive='in'",
            FAMILIAR,
            lambda x, y: metrics.aupr(x, y, positive="in"),
        ),
    ):
        values = [metric(low, some) for some in spread]
        axes.plot(shares, values, color=color, marker="o", label=text)
    axes.plot(shares, shares, "k--", linewidth=1, label="no skill, positive='ood'")
    axes.legend()
    save(canvas, "aupr")


def false_alarms(inside, outside):
    low, high = (metrics.energy(x) for x in (inside, outside))
    canvas, axes = figure("Two thresholds", "energy", "samples in %")
    for text, color, each in (
        ("digits 0 to 7", FAMILIAR, low),
        ("digits 8 and 9, never seen", UNFAMILIAR, high),
    ):
        weights = [100 / len(each)] * len(each)
        axes.hist(
            each.tolist(),
            bins=30,
            range=(-16, -2),
            weights=weights,
            color=color,
            alpha=0.6,
            label=text,
        )
    found = high.sort().values[len(high) - -(-19 * len(high) // 20)]
    kept = low.sort().values[-(-19 * len(low) // 20) - 1]
    out, inner = (metrics.fpr95(low, high, positive=each) for each in ("ood", "in"))
    axes.axvline(
        float(found), color="k", label=f"95 % of unfamiliar found: FPR {out:.2f}"
    )
    axes.axvline(
        float(kept),
        color="k",
        linestyle="--",
        label=f"95 % of familiar kept: FPR {inner:.2f}",
    )
    axes.set_ylim(top=19)
    axes.legend()
    save(canvas, "fpr95")


def tradeoff():
    sharpness, diversity, radii = [], [], [0.02, 0.05, 0.1, 0.15, 0.2, 0.3]
    for rho in radii:
        ensemble = trained(SAM(rho=rho), 3)
        traces = [
            sample_fisher_trace(member, TRAIN).mean() for member in ensemble.members
        ]
        sharpness.append(float(sum(traces)) / 3)
        rows = cells_by_severity(ensemble)
        logits, _ = pooled([cell for s in range(1, 6) for cell in rows[s]])
        diversity.append(float(metrics.probability_variance(logits)))
    line = tradeoff_slope(sharpness, diversity)
    canvas, axes = figure(
        f"β = {line.slope:.2f}, 95 % interval {line.low:.2f} to {line.high:.2f}",
        "mean Fisher trace of the training samples",
        "variance of the probabilities, corrupted",
    )
    axes.scatter(sharpness, diversity, color=FAMILIAR)
    for x, y, rho in zip(sharpness, diversity, radii, strict=True):
        axes.annotate(f" ρ={rho:g}", (x, y))
    ends = torch.tensor([min(sharpness), max(sharpness)])
    axes.plot(ends, ends**line.slope * 2.718281828459045**line.intercept, "k--")
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:.2g}")
        axis.set_minor_formatter("{x:.2g}")
    axes.tick_params(which="both", labelsize=8)
    axes.margins(x=0.2)
    save(canvas, "tradeoff_slope")


def rank_correlation(ensemble):
    member = ensemble.members[0]
    traces = sample_fisher_trace(member, TRAIN)
    logits, _ = dataset_logits(tepui.Ensemble([member]), TRAIN)
    entropies = metrics.entropy(logits)
    value = metrics.rank_correlation(traces, entropies)
    canvas, axes = figure(
        f"Rank correlation {value:.2f}",
        "rank of the Fisher trace",
        "rank of the entropy",
    )
    axes.scatter(metrics.ranks(traces), metrics.ranks(entropies), s=4, color=FAMILIAR)
    save(canvas, "rank_correlation")


def main():
    ensembles = {"SGD": trained(DeepEnsemble(), 8), "SAM": trained(SAM(rho=0.1), 8)}
    cells = {kind: cells_by_severity(each) for kind, each in ensembles.items()}
    data = {
        kind: [pooled(rows[severity]) for severity in SEVERITIES]
        for kind, rows in cells.items()
    }
    accuracies(data)
    likelihoods(data)
    ders(cells)
    eirs(data)
    unique(data)
    disagreement(data)
    lines = of_both(data, lambda x, _: metrics.probability_variance(x))
    by_severity(
        "probability_variance", "Variance of the probabilities", "variance", lines
    )
    lines = of_both(data, lambda x, _: metrics.mean_kl(x))
    by_severity("mean_kl", "Divergence between members", "nats", lines)
    third = data["SGD"][3]
    for draw in (reliability, selective, temperatures):
        draw(*third)
    inside, outside = data["SGD"][0][0], unfamiliar_logits(ensembles["SGD"])
    for draw in (scores, roc, precision, false_alarms):
        draw(inside, outside)
    rank_correlation(ensembles["SGD"])
    tradeoff()


if __name__ == "__main__":
    main()
