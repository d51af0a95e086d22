"""``tepui evaluate``: measure a trained ensemble on clean and other data."""

from collections.abc import Callable, Mapping
from math import isnan
from pathlib import Path
from typing import Any, Literal

import torch
from rich.table import Table
from torch import nn
from torch.utils.data import Dataset

from tepui.cli.architecture import fitted
from tepui.cli.console import console, table
from tepui.cli.datasets import (
    Data,
    corrupted_copies,
    corrupted_images,
    place_of,
    tested_part,
    unfamiliar,
)
from tepui.cli.own_functions import own_functions
from tepui.core.checks import require
from tepui.core.precision import Precision
from tepui.core.replacing import check_writable
from tepui.core.storage import write_document
from tepui.core.task import CLASSIFICATION
from tepui.ensembles.ensemble import load
from tepui.evaluation.cost import prediction_cost
from tepui.evaluation.evaluate import evaluate as evaluate_ensemble
from tepui.evaluation.results import Evaluation
from tepui.evaluation.stored_logits import LogitType
from tepui.report.measures import shown_name
from tepui.studies.gallery import FILE as GALLERY
from tepui.studies.gallery import write_gallery
from tepui.studies.given import tested_on
from tepui.studies.trained import COST, COST_KIND, EVALUATION, EVALUATION_KIND
from tepui.training import LocalExchange, exchange_here
from tepui.training.prepare import to_device
from tepui.training.run_folder import RunFolder

# How a row names what one member or label has.
SINGULAR = {
    "member_accuracies": "accuracy of member",
    "member_nlls": "nll of member",
    "member_rmses": "rmse of member",
    "member_distances": "distance of member",
    "label_eces": "ece of label",
}
EXAMPLE = "tepui evaluate runs/sam --corruptions imagenet --ood noise=UniformNoise"


def evaluate(
    run: Path,
    data: Data | None = None,
    model: Callable[[], nn.Module] | None = None,
    corruptions: Literal["none", "cifar", "tiny_imagenet", "imagenet"] | None = None,
    shifted: str | None = None,
    classes: Literal["held", "all"] = "held",
    ood: dict[str, Data] | None = None,
    metrics: list[str] | None = None,
    logits_in: LogitType = "float32",
    rule: Literal["probability", "logit", "vote"] = "probability",
    batch_size: int = 1024,
    device: str | None = None,
    precision: Precision | None = None,
    workers: int = 0,
    overwrite: bool = False,
) -> None:
    """Measure a trained ensemble on clean, corrupted and unfamiliar data.

    Under torchrun, processes share the batches.

    Args:
        run: The folder of a run, or of a saved ensemble.
        data: The data set; its test part is used. Required if the run was trained on
            anything but digits.
        model: The members' architecture, needed only for models tepui does not know.
        corruptions: Which benchmark's corruption strengths to use, or none; CIFAR's by
            default, unless --shifted is given.
        shifted: Corrupted copies to use instead: a folder, written by tepui corrupt or
            published, or the name of a published set, such as: --shifted CIFAR10C
        classes: Classes that members choose from: those in the data set (200 of 1000
            for ImageNetA and ImageNetR), or all.
        ood: Data the ensemble should find unfamiliar, as NAME=DATASET, such as: --ood
            noise=UniformNoise textures=UnlabeledFolder:PATH
        metrics: Your own metrics, functions of logits and labels, by path: --metrics
            mypackage.my_metric
        logits_in: How logits are stored in the folder: float32, float16 for half the
            space, or none. Scores do not depend on it; without logits a report shows no
            images.
        rule: How members are combined.
        batch_size: Samples that go through a member at once.
        device: Where to compute; a GPU if there is one.
        precision: What members compute in on a GPU; tf32 by default, or float32 if the
            run was trained in it.
        workers: Processes that load data not held in tensors.
        overwrite: Replace an existing evaluation.
    """
    exchange = exchange_here()
    alone = corruptions is None or shifted is None
    require(alone, "--corruptions", "be left out with --shifted", corruptions)
    file = run / EVALUATION
    if file.exists() and not overwrite:
        raise FileExistsError(f"{file} exists; pass --overwrite to replace it")
    check_writable(run)
    exchange.wait()  # from now on the file is ours
    functions = own_functions("--metrics", metrics or ())
    place = place_of(device)
    test = tested_part(data, run)
    copies: Mapping[tuple[str, int], Dataset[Any]] | None = None
    if shifted is not None:
        copies = corrupted_copies(shifted, test, data)
    elif corruptions != "none":
        copies = corrupted_images(test, corruptions or "cifar")
    sets = unfamiliar(ood, test)
    ensemble = load(run, None if model is None else fitted(model, test))
    to_device(ensemble, torch.device(place))
    evaluation = evaluate_ensemble(
        ensemble,
        test,
        shifted=copies,
        ood=sets,
        classes=classes,
        metrics=functions,
        rule=rule,
        batch_size=batch_size,
        workers=workers,
        precision=precision or RunFolder(run).exam_precision(),
        out=run,
        overwrite=True,
        logits_in=logits_in,
        exchange=None if isinstance(exchange, LocalExchange) else exchange,
    )
    if not exchange.writer:
        return
    if logits_in == "none":
        (run / GALLERY).unlink(missing_ok=True)
    else:
        write_gallery(run, test, sets or {})
    about = tested_on(test, copies, sets)
    cost = prediction_cost(ensemble, test).document()
    write_document(run / COST, COST_KIND, cost)
    write_document(file, EVALUATION_KIND, {"about": about, **evaluation.document()})
    terminal = console()
    what = "classes" if evaluation.task == CLASSIFICATION else "outputs"
    terminal.print(_table(evaluation, f"{evaluation.classes} {what}, {run}"))
    if evaluation.ood or evaluation.mistakes:
        terminal.print(detection_table(evaluation))
    terminal.print(f"written to {file}")


def _table(evaluation: Evaluation, title: str) -> Table:
    parts = {"clean": evaluation.clean, "corrupted": evaluation.shifted_mean}
    given = {name: scores for name, scores in parts.items() if scores is not None}
    rows = [
        (shown_name(name), *(f"{s.values()[name]:.4f}" for s in given.values()))
        for name, value in evaluation.clean.values().items()
        if evaluation.task == CLASSIFICATION or not isnan(value)
    ]
    for name, values in evaluation.clean.lists().items():
        one = shown_name(SINGULAR.get(name, name))
        for place in range(len(values)):
            cells = [f"{s.lists()[name][place]:.4f}" for s in given.values()]
            rows.append((f"{one} {place}", *cells))
    if "member_accuracies" in evaluation.clean.lists():
        worst = [f"{min(s.member_accuracies):.4f}" for s in given.values()]
        rows.append(("accuracy of the worst member", *worst))
    return table(title, ("score", *given), rows, numbers=given)


def detection_table(evaluation: Evaluation) -> Table:
    """Return the table of what each score finds: mistakes, and unfamiliar sets."""
    numbers = ("AUROC", "AUPR", "FPR95")
    title, headings = "what each score finds", ("data", "score")
    shown = table(title, (*headings, *numbers), numbers=numbers)
    found = {"mistakes": evaluation.mistakes, **evaluation.ood}
    for data, scores in found.items():
        for score, detection in scores.items():
            values = (detection.auroc, detection.aupr, detection.fpr95)
            cells = [f"{value:.4f}" for value in values]
            shown.add_row(data, shown_name(score), *cells)
        shown.add_section()
    return shown
