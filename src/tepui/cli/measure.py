"""``tepui measure``: sharpness, diversity and OOD detection, of foreign weights too."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, Literal

from rich.table import Table
from torch import nn

from tepui.cli.console import console, table
from tepui.cli.datasets import Data, data_for, place_of, run_part, unfamiliar
from tepui.cli.folders import RUNS, folder_for
from tepui.cli.members import check_places, is_saved, named_ensemble
from tepui.cli.own_functions import own_functions
from tepui.cli.remembered import options_again
from tepui.cli.score_tables import detection_table
from tepui.core.checks import one_of, require
from tepui.core.free_folder import is_free
from tepui.core.replacing import check_writable, write_bytes
from tepui.core.storage import write_document
from tepui.evaluation.evaluate import evaluate
from tepui.evaluation.measure import EnsembleMeasurement
from tepui.evaluation.measure import measure as measured
from tepui.evaluation.scores import Scores
from tepui.evaluation.stored_logits import read_logits
from tepui.metrics import pairwise_disagreement
from tepui.report.drawing import as_png
from tepui.report.measurements import disagreement_of_pairs, sharpness_of_members
from tepui.report.measures import shown_name
from tepui.sharpness import (
    average_case,
    fisher_rao,
    fisher_trace,
    hessian_trace,
    relative_flatness,
    worst_case,
)
from tepui.studies.stored_measures import FILE, FOLDERS, KIND
from tepui.studies.trained import EVALUATION
from tepui.training.run_folder import RunFolder

KINDS = ("sharpness", "diversity", "ood")
NEAR = (worst_case, average_case)  # the measures of a neighborhood, of one size or more
EXAMPLE = (
    "tepui measure a.pt b.pt --model ResNet18 --data CIFAR10 --what sharpness,diversity"
)


def measure(
    checkpoints: list[Path],
    data: Data | None = None,
    model: Callable[[], nn.Module] | None = None,
    models: list[str] | None = None,
    extractor: str | None = None,
    what: str = "sharpness,diversity",
    measures: list[str] | None = None,
    ood: dict[str, Data] | None = None,
    samples: int = 500,
    rho: float | list[float] = 0.5,
    rule: Literal["probability", "logit", "vote"] = "probability",
    seed: int = 0,
    device: str | None = None,
    out: Path | None = None,
) -> None:
    """Measure sharpness and diversity of trained models.

    Args:
        checkpoints: Files with weights (of torch.save or Lightning, .safetensors) or
            folders of Hugging Face, one per member; or the folder of a run.
        data: The data set; sharpness is measured on its training part, diversity and
            accuracy on its test part. What a run was trained on by default; required
            for other folders and for weights.
        model: The architecture that the weights fit; not needed for a run's folder.
        models: One architecture per member instead, where they differ: --models
            ResNet18 mypackage.Net mypackage.make_net
        extractor: What made the extractor that members share, needed only where it is
            your own: as --extractor of tepui train named it.
        what: What to measure, separated by commas: sharpness,diversity,ood
        measures: Your own measures of sharpness, by path, beside tepui's, which need
            no name: --measures mypackage.my_measure
        ood: Data the ensemble should find unfamiliar, as NAME=DATASET, such as: --ood
            noise=UniformNoise
        samples: Number of training samples on which sharpness is measured.
        rho: Size of the neighborhood for worst and average case, or several, with a
            row each: --rho 0.05 0.1 0.2
        rule: How members are combined.
        seed: Seed of all random draws.
        device: Where to compute; a GPU if there is one.
        out: The folder; by default the next free measure-NNN in that of a run, whose
            page (tepui report) then shows what was measured, and for weights in runs.
    """
    kinds = [kind.strip() for kind in what.split(",")]
    for kind in kinds:
        one_of("--what", kind, KINDS)
    require(("ood" in kinds) == bool(ood), "--ood", "go with --what ood", ood)
    radii = rho if isinstance(rho, list) else [rho]
    require(len({*radii}) == len(radii) > 0, "--rho", "be different numbers", radii)
    always = _measures(samples, radii)
    named_so = (
        "name further functions by path, such as mypackage.my_measure; tepui's are "
        f"measured without it ({', '.join(always)})"
    )
    for path in measures or ():
        module, _, name = path.rpartition(".")
        require(bool(module) and name not in always, "--measures", named_so, path)
    functions = own_functions("--measures", measures or ())
    require(not functions or "sharpness" in kinds, "--what", "hold sharpness", what)
    require(len(checkpoints) > 0, "checkpoints", "name at least one file", [])
    check_places(checkpoints)
    source = data_for(data, checkpoints[0])
    within = checkpoints[0] if is_saved(checkpoints) else RUNS
    folder = folder_for("measure", out, resume=False, within=within)
    if not is_free(folder):
        raise FileExistsError(f"{folder} is not empty; choose another folder")
    check_writable(folder)
    place = place_of(device)
    run, tested = checkpoints[0], bool({"diversity", "ood"} & {*kinds})
    train = run_part(source, run, train=True) if "sharpness" in kinds else None
    test = run_part(source, run, train=False) if tested else None
    known = train if test is None else test
    ensemble = named_ensemble(checkpoints, model, models, known, extractor).to(place)
    if ensemble.preparation is not None and known is not None:
        ensemble.preparation.check_table(known)
    document: dict[str, Any] = {
        "checkpoints": [str(path) for path in checkpoints],
        "settings": {"data": type(known).__name__, "rule": rule, "seed": seed},
    }
    if train is not None:
        with console().status("measuring sharpness"):
            measures_taken = always | _sampling(functions, samples)
            taken = measured(ensemble, train, measures_taken, seed=seed)
        sharpness = _by_radius(taken, radii)
        document["sharpness"] = {n: m.document() for n, m in sharpness.items()}
        _draw(folder / "sharpness.png", sharpness_of_members(sharpness))
        console().print(_sharpness_table(sharpness))
    if test is not None:
        evaluation = evaluate(
            ensemble,
            test,
            ood=unfamiliar(ood, test),
            rule=rule,
            precision=RunFolder(checkpoints[0]).exam_precision(),
            out=folder,
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
    write_document(folder / FILE, KIND, document)
    console().print(f"written to {folder}")
    again = options_again(run, data, model, models, extractor)
    console().print(f"next: {_next(checkpoints, folder, again)}", markup=False)


def _next(checkpoints: Sequence[Path], folder: Path, again: str) -> str:
    """Return what to type after a measurement, with options that it needs again."""
    places = " ".join(map(str, checkpoints))
    if not is_saved(checkpoints):
        return f"tepui evaluate {places}, with the same --model"
    evaluated = (checkpoints[0] / EVALUATION).exists()
    if not evaluated:
        return f"tepui evaluate {places}{again}"
    there = folder.resolve() in checkpoints[0].resolve().glob(FOLDERS)
    what = "these too" if there else f"what lies in its folders {FOLDERS}"
    return f"tepui report {places} --open, which shows {what}"


def _measures(samples: int, radii: list[float]) -> dict[str, Callable[..., Any]]:
    near = {f.__name__: partial(f, rho=radii) for f in NEAR}
    others = (fisher_rao, relative_flatness, fisher_trace, hessian_trace)
    return _sampling(near | {f.__name__: f for f in others}, samples)


def _by_radius(
    taken: Mapping[str, EnsembleMeasurement], radii: list[float]
) -> dict[str, EnsembleMeasurement]:
    """Return measurements with those of several radii named by them."""
    shown = {
        f"{f.__name__}[{number}]": f"{f.__name__} (rho={radius})"
        for f in NEAR
        for number, radius in enumerate(radii)
    }
    return {shown.get(name, name): measurement for name, measurement in taken.items()}


def _sampling(
    measures: Mapping[str, Callable[..., Any]], samples: int
) -> dict[str, Callable[..., Any]]:
    """Limit the number of samples of the measures that take such a limit."""
    return {
        name: partial(function, num_samples=samples)
        if "num_samples" in signature(function).parameters
        else function
        for name, function in measures.items()
    }


def _draw(file: Path, figure: Any) -> None:
    write_bytes(file, as_png(figure))


def _sharpness_table(sharpness: dict[str, EnsembleMeasurement]) -> Table:
    members = len(next(iter(sharpness.values())).members)
    numbers = [f"member {number + 1}" for number in range(members)]
    numbers.append("mean ± standard error")
    rows = []
    for name, measurement in sharpness.items():
        cells = [f"{m.value:.4g} ± {m.standard_error:.2g}" for m in measurement.members]
        mean = f"{measurement.mean:.4g} ± {measurement.standard_error:.2g}"
        rows.append((name, *cells, mean))
    title = "sharpness, on training data"
    return table(title, ("measure", *numbers), rows, numbers=numbers)


def _diversity_table(scores: Scores) -> Table:
    rows = [
        (shown_name(name), f"{value:.4f}" if math.isfinite(value) else "undefined")
        for name, value in scores.values().items()
    ]
    for number, accuracy in enumerate(scores.member_accuracies):
        rows.append((f"accuracy of member {number + 1}", f"{accuracy:.4f}"))
    title = "accuracy and diversity, on test data"
    return table(title, ("score", "value"), rows, numbers=["value"])
