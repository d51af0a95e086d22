"""A shortcut that is perfect in training and broken in the test.

Digits of scikit-learn, 0 to 4 against 5 to 9, are painted in one of two colors. On
labeled images the color equals the class, so that two hypotheses fit: color, which
is easy, and shape. The unlabeled images are others, each in a random color; the test
shows every image in both, so that a member which follows the color is right on exactly
half of them. Two members per ensemble, a perceptron with one hidden layer.

Measured: docs/diversification_studies.md.

References:
    Pagliardini et al. (2023), Agree to Disagree: Diversity through Disagreement for
    Better Transferability, ICLR.
    Lee, Yao and Finn (2023), Diversify and Disambiguate: Learning from Underspecified
    Data, ICLR.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final, get_args

import torch
from torch import Tensor
from torch.nn.functional import pad

from tepui.core.checks import one_of
from tepui.core.seeding import generator
from tepui.data import Arrays, Digits, split
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.dataset_logits import dataset_logits
from tepui.methods import A2D, DeepEnsemble, DivDis, Method
from tepui.metrics import accuracy, disagreement, individual_accuracy
from tepui.models import MLP
from tepui.papers.writing import as_json, as_markdown, free_paths, write_files
from tepui.report.figures import COLORS, STYLE, as_png
from tepui.studies import Estimate, estimate
from tepui.training import AdamW, fit
from tepui.training.run_folder import environment_of, to_jsonable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Color = Literal["label", "random", "both"]
Size = Literal["smoke", "small"]
Value = Callable[[Mapping[str, Any]], float]

FILES = ("shortcut.json", "shortcut.md", "shortcut.png")
MEMBERS = 2
BATCH_SIZE = 128
OPTIMIZER = AdamW(lr=3e-3)


class Scale(NamedTuple):
    """How long the study takes.

    Attributes:
        seeds: Ensembles per method.
        epochs: Passes over the labeled images that each member sees.
    """

    seeds: int
    epochs: int


class Variant(NamedTuple):
    """One row of the study.

    Attributes:
        label: Its name.
        method: How the members are trained.
        shares: Into how many equal parts the members divide a run, one after the
            other; the run is as many times longer.
    """

    label: str
    method: Method
    shares: int = 1


SCALES: Mapping[Size, Scale] = {"smoke": Scale(2, 2), "small": Scale(5, 60)}
VARIANTS = (
    Variant("deep ensemble", DeepEnsemble()),
    Variant("A2D", A2D(weight=0.5, parallel=False), shares=MEMBERS),
    Variant("A2D, parallel", A2D(weight=0.5)),
    Variant("DivDis", DivDis()),
)


@final
class ColouredDigits(Arrays):
    """Digits below 5 (class 0) and others (class 1), painted in two colors.

    Example:
        >>> test = ColouredDigits(Digits(train=False), "both")
        >>> tuple(test.inputs.shape), test.colors.float().mean()
        ((720, 2, 8, 8), tensor(0.5000))
    """

    def __init__(self, digits: Arrays, color: Color, seed: int = 0) -> None:
        one_of("color", color, get_args(Color))
        assert isinstance(digits.inputs, Tensor)
        images, classes = digits.inputs, (digits.targets >= 5).long()
        colors = classes
        if color == "random":
            # A key: another spelling would draw other colors.
            stream = generator(seed, "shortcut", "colours")
            colors = torch.randint(2, classes.shape, generator=stream)
        elif color == "both":
            images, classes = torch.cat([images, images]), classes.repeat(2)
            colors = torch.arange(2).repeat_interleave(len(colors))
        names = ("0 to 4", "5 to 9")
        super().__init__(painted(images, colors), classes, classes=names)

    @property
    def colors(self) -> Tensor:
        """The color of each image, read from the image."""
        assert isinstance(self.inputs, Tensor)
        return self.inputs.sum((2, 3)).argmax(1)


def painted(images: Tensor, colors: Tensor) -> Tensor:
    """Put each image into the channel of its color.

    Example:
        >>> painted(torch.ones(2, 1, 1, 1), torch.tensor([0, 1])).flatten(1)
        tensor([[1., 0.],
                [0., 1.]])
    """
    return images * torch.eye(2)[colors][:, :, None, None]


def shortcut(
    out: str | Path, *, size: Size = "small", seed: int = 0, overwrite: bool = False
) -> dict[str, Any]:
    """Train every method on the shortcut and test it where the shortcut is broken.

    Args:
        out: The folder for results (JSON), table (Markdown) and figure (PNG).
        size: ``"small"``, or ``"smoke"`` for a test of the code.
        seed: The first of the consecutive seeds.
        overwrite: Replace files that are there.

    Returns:
        The document that the JSON file holds.

    Raises:
        FileExistsError: If a file is there and ``overwrite`` is false.
    """
    one_of("size", size, get_args(Size))
    free_paths(out, FILES, overwrite=overwrite)
    scale = SCALES[size]
    seeds = range(seed, seed + scale.seeds)
    rows = [
        {
            "label": variant.label,
            "method": to_jsonable(variant.method),
            "epochs": scale.epochs * variant.shares,
            "runs": [_run(variant, scale.epochs, each) for each in seeds],
        }
        for variant in VARIANTS
    ]
    document: dict[str, Any] = {
        "study": "shortcut",
        "size": size,
        "settings": {
            "members": MEMBERS,
            "batch_size": BATCH_SIZE,
            "optimizer": to_jsonable(OPTIMIZER),
            "threads": torch.get_num_threads(),
        },
        "environment": environment_of(torch.device("cpu")),
        "methods": rows,
        "best_member": {row["label"]: asdict(_over_seeds(row, _best)) for row in rows},
    }
    contents = as_json(document), table(document).encode(), _figure(document)
    write_files(out, dict(zip(FILES, contents, strict=True)), overwrite=overwrite)
    return document


def data(seed: int) -> tuple[ColouredDigits, ColouredDigits, ColouredDigits]:
    """Return labeled, unlabeled and test images; no digit is in two of them.

    Args:
        seed: What the split and the random colors derive from.

    Returns:
        Color as the class, color at random, each image in both colors.
    """
    labeled, others = split(Digits(), 0.5, seed=seed)
    return (
        ColouredDigits(labeled, "label"),
        ColouredDigits(others, "random", seed),
        ColouredDigits(Digits(train=False), "both"),
    )


def table(document: Mapping[str, Any]) -> str:
    """Return the study's table: mean and standard error over seeds."""
    columns: dict[str, Value] = {
        "best member (oracle)": _best,
        "worst member": lambda run: min(run["members"]),
        "ensemble": lambda run: run["ensemble"],
        "disagreement": lambda run: run["disagreement"],
        "one-sidedness": _one_sidedness,
        "shortcut intact, best": lambda run: max(run["intact"]),
        "labeled images, worst": lambda run: min(run["train"]),
    }
    rows = []
    for row in document["methods"]:
        cells = [_over_seeds(row, value) for value in columns.values()]
        lowest = min(_best(run) for run in row["runs"])
        shown = [f"{cell.mean:.3f} ± {cell.error:.3f}" for cell in cells]
        rows.append([row["label"], *shown, f"{lowest:.3f}"])
    return as_markdown(["method", *columns, "best member, lowest seed"], rows)


def _run(variant: Variant, epochs: int, seed: int) -> dict[str, Any]:
    train, unlabeled, test = data(seed)
    member = partial(MLP, in_features=128, hidden=(64,), num_classes=2)
    ensemble = Ensemble.build(member, members=MEMBERS, seed=seed)
    fit(
        ensemble,
        train,
        method=variant.method,
        epochs=epochs * variant.shares,
        batch_size=BATCH_SIZE,
        optimizer=OPTIMIZER,
        unlabeled=unlabeled if variant.method.needs_unlabeled else None,
        device="cpu",
        progress="none",
    )
    logits, labels = dataset_logits(ensemble, test)
    colors = test.colors
    intact = colors == labels
    upper = (logits[:, ~intact].argmax(-1) == 1).double().mean(1)
    return {
        "seed": seed,
        "members": individual_accuracy(logits, labels).tolist(),
        "ensemble": float(accuracy(logits, labels)),
        "follow_color": individual_accuracy(logits, colors).tolist(),
        "disagreement": float(disagreement(logits)),
        "upper_in_conflict": upper.tolist(),
        "intact": individual_accuracy(logits[:, intact], labels[intact]).tolist(),
        "train": individual_accuracy(*dataset_logits(ensemble, train)).tolist(),
    }


def _best(run: Mapping[str, Any]) -> float:
    return float(max(run["members"]))


def _one_sidedness(run: Mapping[str, Any]) -> float:
    """Return how differently members lean where color and class conflict."""
    return float(max(run["upper_in_conflict"]) - min(run["upper_in_conflict"]))


def _over_seeds(row: Mapping[str, Any], value: Value) -> Estimate:
    return estimate(value(run) for run in row["runs"])


def _figure(document: Mapping[str, Any]) -> bytes:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.6, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.5))
        _show_samples(left)
        _show_members(right, document["methods"])
        figure.legend(loc="outside lower right", ncols=2, frameon=False)
    return as_png(figure)


def _show_samples(axis: "Axes") -> None:
    """Draw a few labeled, unlabeled and test images, blue and red."""
    train, unlabeled, test = data(0)
    pairs = torch.arange(len(test)).view(2, -1).T.flatten()  # a digit in both colors
    rows = []
    for part in (train, unlabeled, test.subset(pairs)):
        assert isinstance(part.inputs, Tensor)
        blue, red = part.inputs[:8].unbind(1)
        shown = pad(torch.stack([red, 0.5 * blue, blue]), (1, 1, 1, 1), value=1.0)
        rows.append(torch.cat(list(shown.unbind(1)), dim=-1))
    grid = torch.cat(rows, dim=-2).permute(1, 2, 0)
    axis.imshow(grid.numpy(), interpolation="nearest")
    axis.set_yticks([4.5, 14.5, 24.5], ["labeled", "unlabeled", "test"])
    axis.set_xticks([])
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)
    axis.set_title("images")


def _show_members(axis: "Axes", rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw each member by how often it is right and how often it follows color."""
    for position, row in enumerate(rows):
        for kind, name in enumerate(("follow_color", "members")):
            values = torch.tensor([run[name] for run in row["runs"]])
            order = torch.tensor([run["members"] for run in row["runs"]]).argsort(1)
            values = values.gather(1, order)
            for rank in range(MEMBERS):
                shift = 0.22 * (rank - 0.5) + 0.08 * (kind - 0.5)
                axis.plot(
                    [position + shift] * len(values),
                    values[:, rank].tolist(),
                    "sD"[kind],
                    color=COLORS[1 - kind],
                    markerfacecolor="none",
                    label=("predicts the color", "predicts the class")[kind]
                    if position == rank == 0
                    else None,
                )
    axis.axhline(0.5, color="#888888", linestyle="--", linewidth=1)
    axis.set_xticks(range(len(rows)), [row["label"] for row in rows])
    axis.set_ylabel("share of test images")
    axis.set_title("worse and better member of each ensemble")
    axis.set_ylim(0.35, 1.03)
    axis.grid(axis="x", visible=False)
