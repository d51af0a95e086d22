"""SED and its controls on real images, without a download.

Fashion-MNIST: a ConvNet is trained on one part of the training images and frozen; five
heads with one hidden layer learn from its features of another part. Tested on clean
images, on copies under the fifteen standard corruptions, and by how well PDS and BMA
tell other sets from clean images: real digits, clothes with light and dark exchanged,
noise. Every repetition has an extractor, splits and heads of its own, shared by all
variants, so that differences are paired. SED's runs are longer by ``members / active``,
which gives each head as many updates as in the other runs.

The controls: no disagreement (weight 0) with the same random choice of members, label
smoothing 0 and 0.5, and no weights of samples.

Measured: docs/diversification_studies.md.

References:
    Rubinstein, Scimeca, Teney and Oh (2024), Scalable Ensemble Diversification for OOD
    Generalization and Detection.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from tepui.core.checks import one_of
from tepui.core.hyperparameters import hyperparameter_grid
from tepui.core.seeding import generator
from tepui.data import STANDARD, Arrays, Digits, FashionMNIST, UniformNoise, corrupted
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.dataset_logits import dataset_logits
from tepui.evaluation.scores import mean_scores, scores
from tepui.losses import CrossEntropy
from tepui.methods import SED, DeepEnsemble, Method
from tepui.metrics import auroc, ood_scores
from tepui.models import MLP, ConvNet, split_last_layers
from tepui.modules.features import cached_features
from tepui.papers.sed.protocol import OOD_SCORES
from tepui.papers.writing import as_json, as_markdown, free_paths, write_files
from tepui.report.figures import COLORS, STYLE, as_png
from tepui.studies import Estimate, estimate
from tepui.training import AdamW, fit
from tepui.training.run_folder import environment_of, to_jsonable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Size = Literal["smoke", "small"]
Value = Callable[[Mapping[str, Any]], float]

FILES = ("offline_sed.json", "offline_sed.md", "offline_sed.png")
MEMBERS = 5
BATCH_SIZE = 128
HIDDEN = 64
GRID = {
    "lr": (3e-4, 1e-3, 3e-3),
    "weight_decay": (1e-4, 1e-2, 1e-1),
    "label_smoothing": (0.0, 0.1),
}


class Scale(NamedTuple):
    """How large the study is.

    Attributes:
        images: The data set's class.
        samples: Images for the extractor, for the heads, and for each test.
        width: Width of the extractor.
        epochs: Passes of the extractor, and of each head.
        seeds: Repetitions.
        types: Corruptions; severities are 1 and 5.
    """

    images: Callable[..., Arrays]
    samples: tuple[int, int, int]
    width: int
    epochs: tuple[int, int]
    seeds: int
    types: tuple[str, ...]


class Variant(NamedTuple):
    """One row of the study.

    Attributes:
        label: Its name.
        method: How the heads are trained.
        label_smoothing: For all heads.
        varied: Deal learning rate, weight decay and label smoothing from a grid.
    """

    label: str
    method: Method
    label_smoothing: float = 0.0
    varied: bool = False


class Images(NamedTuple):
    """The data of one repetition.

    Attributes:
        extractor: What the extractor learns from.
        heads: What the heads learn from.
        test: Clean test images.
        others: What no head should recognize, by name.
    """

    extractor: Arrays
    heads: Arrays
    test: Arrays
    others: Mapping[str, Arrays]


SCALES: Mapping[Size, Scale] = {
    "smoke": Scale(Digits, (800, 400, 200), 4, (6, 4), 2, ("gaussian_noise",)),
    "small": Scale(FashionMNIST, (8000, 8000, 2000), 8, (5, 10), 5, STANDARD),
}
BASELINE = "deep ensemble"
STRONG = "SED, weight 5, smoothing 0.5"
VARIANTS = (
    Variant(BASELINE, DeepEnsemble()),
    Variant("varied hyperparameters", DeepEnsemble(), varied=True),
    Variant("SED", SED(weight=0.1)),
    Variant("SED, weight 0", SED(weight=0.0)),
    Variant("SED, no sample weights", SED(weight=0.1, alpha="none")),
    Variant("deep ensemble, smoothing 0.5", DeepEnsemble(), 0.5),
    Variant("SED, smoothing 0.5", SED(weight=0.1), 0.5),
    Variant("SED, weight 0, smoothing 0.5", SED(weight=0.0), 0.5),
    Variant(STRONG, SED(weight=5.0), 0.5),
)
DIFFERENCES = (
    ("varied hyperparameters", BASELINE),
    ("SED", BASELINE),
    ("SED, weight 0", BASELINE),
    ("deep ensemble, smoothing 0.5", BASELINE),
    ("SED", "SED, weight 0"),
    ("SED", "SED, no sample weights"),
    ("SED, smoothing 0.5", "SED, weight 0, smoothing 0.5"),
    (STRONG, "SED, weight 0, smoothing 0.5"),
)


def offline_sed(
    out: str | Path, *, size: Size = "small", seed: int = 0, overwrite: bool = False
) -> dict[str, Any]:
    """Train and test every variant on the same extractors."""
    one_of("size", size, get_args(Size))
    free_paths(out, FILES, overwrite=overwrite)
    scale = SCALES[size]
    runs: dict[str, list[dict[str, Any]]] = {each.label: [] for each in VARIANTS}
    for each in range(seed, seed + scale.seeds):
        for label, run in _repetition(scale, each).items():
            runs[label].append(run)
    document: dict[str, Any] = {
        "study": "offline_sed",
        "size": size,
        "settings": {
            "scale": {
                name: to_jsonable(value) for name, value in scale._asdict().items()
            },
            "members": MEMBERS,
            "hidden": HIDDEN,
            "batch_size": BATCH_SIZE,
            "grid": {name: list(values) for name, values in GRID.items()},
            "threads": torch.get_num_threads(),
        },
        "environment": environment_of(torch.device("cpu")),
        "variants": [
            {
                "label": variant.label,
                "method": to_jsonable(variant.method),
                "label_smoothing": variant.label_smoothing,
                "varied": variant.varied,
                "runs": runs[variant.label],
            }
            for variant in VARIANTS
        ],
    }
    contents = as_json(document), tables(document).encode(), _figure(document)
    write_files(out, dict(zip(FILES, contents, strict=True)), overwrite=overwrite)
    return document


def images(scale: Scale, seed: int) -> Images:
    """Return the data of one repetition; no image is in two parts."""
    whole, clean = scale.images(train=True), scale.images(train=False)
    first, second, tested = scale.samples
    train = _drawn(whole, first + second, seed)
    test = _drawn(clean, tested, seed)
    assert isinstance(test.inputs, Tensor)
    nothing = torch.full_like(test.targets, -1)
    full = 255 if test.inputs.dtype == torch.uint8 else 1
    others: dict[str, Arrays] = {
        "inverted": test.like(full - test.inputs, nothing),
        "noise": UniformNoise(tested, like=test, seed=seed),
    }
    if scale.images is not Digits:
        others = {"digits": _digits(like=test), **others}
    return Images(
        train.subset(range(first)),
        train.subset(range(first, first + second)),
        test,
        others,
    )


def tables(document: Mapping[str, Any]) -> str:
    """Return the study's tables: means and standard errors over seeds.

    Args:
        document: What :func:`offline_sed` returned.

    Returns:
        Markdown: diversity and accuracy, detection, and paired differences.
    """
    runs = {row["label"]: row["runs"] for row in document["variants"]}
    columns = _columns(runs[BASELINE][0])
    detection = {name: value for name, value in columns.items() if "AUROC" in name}
    levels = {name: columns[name] for name in columns if name not in detection}
    main = {
        name: value
        for name, value in columns.items()
        if not name.startswith("member") and "AUROC, severity 1" not in name
    }
    compared = {
        f"{label}, less {other}": (runs[label], runs[other])
        for label, other in DIFFERENCES
    }
    blocks = [
        as_markdown(
            ["heads", *part],
            [
                [label, *(_cell(map(value, found)) for value in part.values())]
                for label, found in runs.items()
            ],
        )
        for part in (levels, detection)
    ]
    differences = [
        [label, *(_cell(_paired(value, *pair), "+") for value in main.values())]
        for label, pair in compared.items()
    ]
    return "\n".join([*blocks, as_markdown(["difference", *main], differences)])


def _drawn(dataset: Arrays, count: int, seed: int) -> Arrays:
    order = torch.randperm(len(dataset), generator=generator(seed, "offline_sed"))
    return dataset.subset(order[:count])


def _digits(like: Arrays) -> Arrays:
    """Return real digits in the size and the normalization of other images."""
    found = Digits(train=True)
    assert isinstance(found.inputs, Tensor)
    assert isinstance(like.inputs, Tensor)
    side = like.inputs.shape[-1]
    larger = interpolate(found.inputs, size=(side, side), mode="bilinear")
    shown = larger.mul(255).round().byte()
    return like.like(shown, torch.full_like(found.targets, -1))


def _repetition(scale: Scale, seed: int) -> dict[str, dict[str, Any]]:
    """Train one extractor, and every variant's heads on its features."""
    found = images(scale, seed)
    model = Ensemble.build(partial(ConvNet, width=scale.width), members=1, seed=seed)
    fit(
        model,
        found.extractor,
        method=DeepEnsemble(),
        epochs=scale.epochs[0],
        batch_size=BATCH_SIZE,
        device="cpu",
        progress="none",
    )
    extractor = split_last_layers(model.members[0]).extractor
    copies = corrupted(found.test, types=scale.types, severities=(1, 5), seed=seed)
    with TemporaryDirectory() as folder:
        read = partial(cached_features, extractor, folder=folder)
        train, test = read(found.heads), read(found.test)
        shifted = {cell: read(copies[cell]) for cell in copies}
        others = {name: read(data) for name, data in found.others.items()}
    runs = {}
    for variant in VARIANTS:
        head = partial(MLP, in_features=16 * scale.width, hidden=(HIDDEN,))
        ensemble = Ensemble.on_features(extractor, head, members=MEMBERS, seed=seed)
        heads = ensemble.heads
        _train(heads, train, variant, scale.epochs[1], seed)
        runs[variant.label] = {"seed": seed, **_tested(heads, test, shifted, others)}
    return runs


def _train(
    heads: Ensemble, train: Arrays, variant: Variant, epochs: int, seed: int
) -> None:
    optimizer, smoothing = AdamW(), variant.label_smoothing
    loss = CrossEntropy(smoothing)
    if variant.varied:
        dealt = hyperparameter_grid(MEMBERS, seed=seed, **GRID)
        optimizer = AdamW(lr=dealt["lr"], weight_decay=dealt["weight_decay"])
        loss = CrossEntropy(dealt["label_smoothing"])
    method = variant.method
    longer = MEMBERS / method.active if isinstance(method, SED) else 1
    fit(
        heads,
        train,
        method=method,
        epochs=round(epochs * longer),
        batch_size=BATCH_SIZE,
        loss=loss,
        optimizer=optimizer,
        device="cpu",
        progress="none",
    )


def _tested(
    heads: Ensemble,
    test: Arrays,
    shifted: Mapping[tuple[str, int], Arrays],
    others: Mapping[str, Arrays],
) -> dict[str, Any]:
    """Return scores on clean and corrupted data, and AUROCs against other sets."""
    clean, labels = dataset_logits(heads, test)
    cells = {cell: dataset_logits(heads, data)[0] for cell, data in shifted.items()}
    unfamiliar = {name: dataset_logits(heads, data)[0] for name, data in others.items()}
    found: dict[str, Any] = {"clean": scores(clean, labels).document()}
    for level in sorted({severity for _, severity in cells}):
        logits = [each for (_, severity), each in cells.items() if severity == level]
        mean = mean_scores(scores(each, labels) for each in logits)
        found[f"severity {level}"] = mean.document()
        unfamiliar[f"severity {level}"] = torch.cat(logits, dim=1)
    familiar = ood_scores(clean, OOD_SCORES.values())
    far = {
        name: ood_scores(logits, OOD_SCORES.values())
        for name, logits in unfamiliar.items()
    }
    found["auroc"] = {
        name: {
            score: float(auroc(familiar[ours], values[ours]))
            for score, ours in OOD_SCORES.items()
        }
        for name, values in far.items()
    }
    return found


def _columns(run: Mapping[str, Any]) -> dict[str, Value]:
    """Return what is read from every run, by the heading of its column."""

    def of(*path: str) -> Value:
        def value(run: Any) -> float:
            for name in path:
                run = run[name]
            return float(run)

        return value

    columns = {}
    for data in ("clean", "severity 1", "severity 5"):
        columns[f"unique, {data}"] = of(data, "unique_predictions")
        columns[f"accuracy, {data}"] = of(data, "accuracy")
        columns[f"member accuracy, {data}"] = of(data, "individual_accuracy")
    for name in run["auroc"]:
        for score in OOD_SCORES:
            columns[f"{score.upper()}-AUROC, {name}"] = of("auroc", name, score)
    return columns


def _paired(
    value: Value,
    first: Sequence[Mapping[str, Any]],
    second: Sequence[Mapping[str, Any]],
) -> list[float]:
    """Return the difference in every repetition."""
    return [value(a) - value(b) for a, b in zip(first, second, strict=True)]


def _cell(values: Iterable[float], sign: str = "") -> str:
    found = estimate(values)
    return f"{found.mean:{sign}.3f} ± {found.error:.3f}"


def _figure(document: Mapping[str, Any]) -> bytes:
    """Draw a row per variant, but for one far off, and a panel per quantity."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    variants = [row for row in document["variants"] if row["label"] != STRONG]
    columns = _columns(variants[0]["runs"][0])
    sets = list(variants[0]["runs"][0]["auroc"])
    panels = {
        "unique predictions": ["unique, severity 5"],
        "accuracy": ["accuracy, severity 5"],
        **{
            f"AUROC, {name}": [f"PDS-AUROC, {name}", f"BMA-AUROC, {name}"]
            for name in sets
            if name != "severity 1"
        },
    }
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2.3 * len(panels) + 2, 4.4), layout="constrained")
        axes = figure.subplots(1, len(panels), sharey=True)
        for axis, (title, names) in zip(axes, panels.items(), strict=True):
            _show(axis, variants, [columns[name] for name in names])
            axis.set_title(title, fontsize=10)
        axes[0].set_yticks(range(len(variants)), [row["label"] for row in variants])
        axes[0].invert_yaxis()
        for axis in axes[:2]:
            axis.set_xlabel("corrupted, severity 5", fontsize=9)
        for number, score in enumerate(("PDS", "BMA")):
            axes[-1].plot([], [], "so"[number], color=COLORS[number], label=score)
        figure.legend(loc="outside lower right", ncols=2, frameon=False)
    return as_png(figure)


def _show(
    axis: "Axes", variants: Sequence[Mapping[str, Any]], values: Sequence[Value]
) -> None:
    for number, value in enumerate(values):
        found = [_over(variant, value) for variant in variants]
        axis.errorbar(
            [each.mean for each in found],
            [
                row + 0.2 * (number - 0.5) * (len(values) - 1)
                for row in range(len(found))
            ],
            xerr=[each.error for each in found],
            fmt="so"[number],
            color=COLORS[number] if len(values) > 1 else "#444444",
            markersize=4,
            capsize=2,
        )
    axis.axvline(_over(variants[0], values[0]).mean, color="#bbbbbb", linewidth=1)


def _over(variant: Mapping[str, Any], value: Value) -> Estimate:
    return estimate(value(run) for run in variant["runs"])
