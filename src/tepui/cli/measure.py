"""``tepui measure``: sharpness, diversity and OOD detection, of foreign weights too."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.table import Table

from tepui.cli.console import console, table
from tepui.cli.values import (
    Data,
    DataSets,
    Extractor,
    Functions,
    Models,
    Settings,
    Whole,
    by_name,
)
from tepui.core.checks import require

if TYPE_CHECKING:
    from tepui.evaluation.measure import EnsembleMeasurement

NEAR = ("worst_case", "average_case")  # of a neighborhood, of one size or more
ALWAYS = (*NEAR, "fisher_rao", "relative_flatness", "fisher_trace", "hessian_trace")
Kind = Literal["sharpness", "diversity", "ood"]
SEVERAL = Parameter(consume_multiple=True)


def measure(
    checkpoints: list[Path],
    /,
    *,
    data: Data | None = None,
    model: Models | None = None,
    extractor: Extractor | None = None,
    what: Annotated[tuple[Kind, ...], SEVERAL] = ("sharpness", "diversity"),
    measures: Functions | None = None,
    ood: DataSets | None = None,
    samples: Whole = 500,
    rho: Annotated[tuple[float, ...], SEVERAL] = (0.5,),
    seed: Whole = 0,
    out: Path | None = None,
    set: Settings | None = None,
) -> None:
    """Measure sharpness and diversity of trained models.

    Such as:

        tepui measure runs/sam
        tepui measure a.pt b.pt --model ResNet18 --data CIFAR10 --what diversity
        tepui measure runs/sam --what sharpness --rho 0.05 0.1 0.2

    Args:
        checkpoints: Files with weights (of torch.save or Lightning, .safetensors) or
            folders of Hugging Face, one per member; or the folder of a run.
        data: The data set; sharpness is measured on its training part, diversity and
            accuracy on its test part. What a run was trained on by default; required
            for other folders and for weights.
        model: The architecture that the weights fit, or one for each; not needed for a
            run's folder.
        extractor: What made the extractor that members share, needed only if it is
            your own: as --extractor of tepui train named it.
        what: What to measure; ood needs --ood.
        measures: Your own measures of sharpness, by path, beside tepui's, which need
            no name, such as mypackage.my_measure.
        ood: Data the ensemble should find unfamiliar, as NAME=DATASET, such as
            noise=UniformNoise.
        samples: Number of training samples on which sharpness is measured.
        rho: Size of the neighborhood for worst and average case, or several, with a
            row each.
        seed: Seed of all random draws.
        out: The folder; by default the next free measure-NNN in that of a run, whose
            page (tepui report) then shows what was measured, and for weights in runs.
        set: The rule or the device, such as device=cpu; tepui settings --of measure
            explains them.
    """
    from tepui.cli.folders import RUNS, folder_for
    from tepui.cli.members import is_saved, opened
    from tepui.cli.settings import OfMeasure, read_settings
    from tepui.core.lease import is_free
    from tepui.core.storage import write_document
    from tepui.data.sources import unfamiliar
    from tepui.evaluation.evaluate import evaluate
    from tepui.evaluation.evaluations import is_evaluated
    from tepui.evaluation.measure import measure as measured
    from tepui.training.numerics import place_of

    further = OfMeasure(**read_settings("measure", set))
    require(("ood" in what) == bool(ood), "--ood", "go with --what ood", [*(ood or ())])
    require(len({*rho}) == len(rho), "--rho", "be different numbers", rho)
    functions = by_name("measures", [text.read() for text in measures or ()])
    for name in functions:
        require(name not in ALWAYS, "--measures", "be none of tepui's", name)
    require(not functions or "sharpness" in what, "--what", "hold sharpness", what)
    run, trained = checkpoints[0], is_saved(checkpoints)
    source = opened(checkpoints, model, extractor, lambda source: known)
    within = run if trained else RUNS
    folder = folder_for("measure", out, resume=False, within=within)
    if not is_free(folder):
        raise FileExistsError(f"{folder} is not empty; choose another folder")
    sharp, others = "sharpness" in what, {*what} - {"sharpness"}
    train = source.part(data, train=True) if sharp else None
    test = source.part(data, train=False) if others else None
    known = train if test is None else test
    ensemble = source.ensemble.to(place_of(further.device))
    settings = {"data": type(known).__name__, "rule": further.rule, "seed": seed}
    document: dict[str, Any] = {"checkpoints": [*map(str, checkpoints)]}
    document["settings"] = settings
    terminal = console()
    if train is not None:
        with terminal.status("measuring sharpness"):
            taken = measured(
                ensemble, train, _measures(functions, samples, rho), seed=seed
            )
        sharpness = _by_radius(taken, rho)
        document["sharpness"] = {n: m.document() for n, m in sharpness.items()}
        terminal.print(_sharpness_table(sharpness))
    if test is not None:
        evaluation = evaluate(
            ensemble,
            test,
            ood=unfamiliar(ood, test),
            rule=further.rule,
            precision=source.exam_precision,
        )
        terminal.print(str(evaluation))
    if "diversity" in what:
        document["diversity"] = evaluation.clean.document()
    if "ood" in what:
        document["ood"] = evaluation.document()["ood"]
    write_document(folder / "measure.json", "measures", document)
    terminal.print(f"written to {folder}")
    if not is_evaluated(run):
        terminal.print(f"next: tepui evaluate {' '.join(map(str, checkpoints))}")


def _measures(
    functions: Mapping[str, Callable[..., Any]], samples: int, radii: Sequence[float]
) -> dict[str, Callable[..., Any]]:
    """Return all measures, with a limit of samples where they take one."""
    from tepui import sharpness

    measures = {name: getattr(sharpness, name) for name in ALWAYS}
    measures |= {name: partial(measures[name], rho=[*radii]) for name in NEAR}
    return {
        name: partial(function, num_samples=samples)
        if "num_samples" in signature(function).parameters
        else function
        for name, function in {**measures, **functions}.items()
    }


def _by_radius(
    taken: Mapping[str, "EnsembleMeasurement"], radii: Sequence[float]
) -> dict[str, "EnsembleMeasurement"]:
    """Return measurements with those of several radii named by them."""
    shown = {
        f"{name}[{number}]": f"{name} (rho={radius})"
        for name in NEAR
        for number, radius in enumerate(radii)
    }
    return {shown.get(name, name): measurement for name, measurement in taken.items()}


def _sharpness_table(sharpness: Mapping[str, "EnsembleMeasurement"]) -> Table:
    rows = []
    for name, found in sharpness.items():
        members = ", ".join(f"{member.value:.4g}" for member in found.members)
        rows.append((name, f"{found.mean:.4g} ± {found.standard_error:.2g}", members))
    headings = ("measure", "mean ± standard error", "members")
    return table("sharpness, on training data", headings, rows)
