"""``tepui measure``: sharpness, diversity and OOD detection, of foreign weights too."""

import math
from collections.abc import Callable
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import torch
from rich.table import Table
from torch import nn
from torch.utils.data import Dataset

from tepui.cli.architecture import fitted
from tepui.cli.console import console
from tepui.cli.datasets import Data, data_for, part, unfamiliar
from tepui.cli.evaluate import detection_table
from tepui.cli.folders import folder_for
from tepui.cli.own_functions import own_functions
from tepui.core.checks import one_of, require
from tepui.core.storage import replacing, write_json
from tepui.ensembles.ensemble import FILE, Ensemble, load
from tepui.ensembles.foreign_weights import ensemble_of
from tepui.evaluation.evaluate import evaluate
from tepui.evaluation.measure import EnsembleMeasurement
from tepui.evaluation.measure import measure as measured
from tepui.evaluation.scores import Scores
from tepui.evaluation.stored_logits import read_logits
from tepui.metrics import pairwise_disagreement
from tepui.report.drawing import as_png
from tepui.report.measurements import disagreement_of_pairs, sharpness_of_members
from tepui.report.tables import shown_name
from tepui.sharpness import (
    average_case,
    fisher_rao,
    fisher_trace,
    hessian_trace,
    relative_flatness,
    worst_case,
)

KINDS = ("sharpness", "diversity", "ood")
EXAMPLE = (
    "tepui measure a.pt b.pt --model ResNet18 --data CIFAR10 --what sharpness,diversity"
)


def measure(
    checkpoints: list[Path],
    data: Data | None = None,
    model: Callable[[], nn.Module] | None = None,
    what: str = "sharpness,diversity",
    measures: list[str] | None = None,
    ood: dict[str, Data] | None = None,
    samples: int = 500,
    rho: float = 0.5,
    rule: Literal["probability", "logit", "vote"] = "probability",
    seed: int = 0,
    device: str | None = None,
    out: Path | None = None,
) -> None:
    """Measure sharpness and diversity of trained models.

    Args:
        checkpoints: Files with weights (.pt of torch.save, .safetensors), one per
            member; or one folder of a run.
        data: The data set; sharpness is measured on its training part, diversity and
            accuracy on its test part. Digits by default, unless a run is on others.
        model: The architecture that the weights fit; not needed for a run's folder.
        what: What to measure, with commas between: sharpness,diversity,ood
        measures: Measures of sharpness of your own, by their paths: --measures
            mypackage.my_measure
        ood: Data the ensemble should find unfamiliar, as NAME=DATASET, such as: --ood
            noise=UniformNoise
        samples: On how many training samples sharpness is measured.
        rho: Size of the neighborhood for worst and average case.
        rule: How members are combined.
        seed: What draws derive from.
        device: Where to compute; a GPU if there is one.
        out: The folder; the next free runs/measure-NNN by default.
    """
    kinds = [kind.strip() for kind in what.split(",")]
    for kind in kinds:
        one_of("--what", kind, KINDS)
    require(("ood" in kinds) == bool(ood), "--ood", "go with --what ood", ood)
    own = own_functions("--measures", measures or ())
    require(not own or "sharpness" in kinds, "--what", "hold sharpness", what)
    taken = [name for name in own if name in _measures(samples, rho)]
    require(not taken, "--measures", "have other names than tepui's", taken)
    require(len(checkpoints) > 0, "checkpoints", "name at least one file", [])
    source = data_for(data, checkpoints[0])
    folder = folder_for("measure", out, resume=False)
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty; choose another folder")
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    train = part(source, train=True) if "sharpness" in kinds else None
    test = part(source, train=False) if {"diversity", "ood"} & {*kinds} else None
    ensemble = _ensemble(checkpoints, model, train if test is None else test).to(place)
    document: dict[str, Any] = {"checkpoints": [str(path) for path in checkpoints]}
    if train is not None:
        with console().status("measuring sharpness"):
            measures_taken = _measures(samples, rho) | _sampling(own, samples)
            sharpness = measured(ensemble, train, measures_taken, seed=seed)
        document["sharpness"] = {n: m.document() for n, m in sharpness.items()}
        _draw(folder / "sharpness.png", sharpness_of_members(sharpness))
        console().print(_sharpness_table(sharpness))
    if test is not None:
        evaluation = evaluate(
            ensemble, test, ood=unfamiliar(ood, test), rule=rule, out=folder
        )
    if "diversity" in kinds:
        document["diversity"] = evaluation.clean.document()
        if len(ensemble) > 1:
            pairs = pairwise_disagreement(read_logits(folder).clean[0])
            _draw(folder / "disagreement.png", disagreement_of_pairs(pairs))
        console().print(_diversity_table(evaluation.clean))
    if "ood" in kinds:
        document["ood"] = evaluation.document()["ood"]
        console().print(detection_table(evaluation))
    write_json(folder / "measure.json", document)
    console().print(f"written to {folder}")


def _ensemble(
    checkpoints: list[Path],
    model: Callable[[], nn.Module] | None,
    data: Dataset[Any] | None,
) -> Ensemble:
    factory = model if model is None or data is None else fitted(model, data)
    if len(checkpoints) == 1 and (checkpoints[0] / FILE).is_file():
        return load(checkpoints[0], factory)
    if factory is None:
        raise ValueError("--model must be given to read files of weights, got None")
    return ensemble_of(checkpoints, factory)


def _measures(samples: int, rho: float) -> dict[str, Callable[..., Any]]:
    near: list[Callable[..., Any]] = [worst_case, average_case]
    others: list[Callable[..., Any]] = [
        fisher_rao,
        relative_flatness,
        fisher_trace,
        hessian_trace,
    ]
    named = {f.__name__: f for f in others}
    return {f.__name__: partial(f, num_samples=samples, rho=rho) for f in near} | (
        _sampling(named, samples)
    )


def _sampling(
    measures: dict[str, Callable[..., Any]], samples: int
) -> dict[str, Callable[..., Any]]:
    """Bound the samples of those measures that let themselves be told how many."""
    return {
        name: partial(function, num_samples=samples)
        if "num_samples" in signature(function).parameters
        else function
        for name, function in measures.items()
    }


def _draw(file: Path, figure: Any) -> None:
    with replacing(file) as temporary:
        temporary.write_bytes(as_png(figure))


def _sharpness_table(sharpness: dict[str, EnsembleMeasurement]) -> Table:
    table = Table(title="sharpness, on training data")
    table.add_column("measure")
    members = len(next(iter(sharpness.values())).members)
    for number in range(members):
        table.add_column(f"member {number + 1}", justify="right")
    table.add_column("mean ± standard error", justify="right")
    for name, measurement in sharpness.items():
        cells = [
            f"{member.value:.4g} ± {member.standard_error:.2g}"
            for member in measurement.members
        ]
        mean = f"{measurement.mean:.4g} ± {measurement.standard_error:.2g}"
        table.add_row(name, *cells, mean)
    return table


def _diversity_table(scores: Scores) -> Table:
    table = Table(title="accuracy and diversity, on test data")
    table.add_column("score")
    table.add_column("value", justify="right")
    for name, value in scores.values().items():
        shown = f"{value:.4f}" if math.isfinite(value) else "undefined"
        table.add_row(shown_name(name), shown)
    for number, accuracy in enumerate(scores.member_accuracies):
        table.add_row(f"accuracy of member {number + 1}", f"{accuracy:.4f}")
    return table
