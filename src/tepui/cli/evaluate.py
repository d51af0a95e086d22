"""``tepui evaluate``: measure a trained ensemble on clean and corrupted data."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from rich.table import Table
from torch import nn
from torch.utils.data import Dataset

from tepui.checks import require
from tepui.cli.console import console
from tepui.cli.parts import Data, corrupted_images, part
from tepui.data import Digits, arrays_of, corrupted_files
from tepui.data.image_files import ImageFiles
from tepui.ensemble import load
from tepui.evaluation import Evaluation
from tepui.evaluation import evaluate as evaluate_ensemble
from tepui.experiments.compare import EVALUATION
from tepui.storage import write_json

EXAMPLE = "tepui evaluate runs/sam --corruptions imagenet"


def evaluate(
    run: Path,
    data: Data = Digits,
    model: Callable[[], nn.Module] | None = None,
    corruptions: Literal["none", "cifar", "tiny_imagenet", "imagenet"] | None = None,
    shifted: Path | None = None,
    rule: Literal["probability", "logit", "vote"] = "probability",
    batch_size: int = 1024,
    device: str | None = None,
    workers: int = 0,
    overwrite: bool = False,
) -> None:
    """Measure a trained ensemble on clean and corrupted data.

    Args:
        run: The folder of a run, or of a saved ensemble.
        data: The data set; its test part is used.
        model: The members' architecture, needed only for models tepui does not know.
        corruptions: Whose strengths of corruption to take, or none; those of CIFAR by
            default, unless --shifted is given.
        shifted: A folder of corrupted copies to take instead, written by tepui corrupt
            or published.
        rule: How members are joined.
        batch_size: Samples that go through a member at once.
        device: Where to compute; a GPU if there is one.
        workers: Processes that load data not held in tensors.
        overwrite: Replace an evaluation that is there.
    """
    alone = corruptions is None or shifted is None
    require(alone, "--corruptions", "be left out beside --shifted", corruptions)
    file = run / EVALUATION
    if file.exists() and not overwrite:
        raise FileExistsError(f"{file} exists; pass --overwrite to replace it")
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    test = part(data, train=False)
    copies: Mapping[tuple[str, int], Dataset[Any]] | None = None
    if shifted is not None:
        like = test if isinstance(test, ImageFiles) else arrays_of(test)
        copies = corrupted_files(shifted, like)
    elif corruptions != "none":
        copies = corrupted_images(test, corruptions or "cifar", place)
    evaluation = evaluate_ensemble(
        load(run, model).to(place),
        test,
        shifted=copies,
        rule=rule,
        batch_size=batch_size,
        workers=workers,
        out=run,
        overwrite=True,
    )
    write_json(file, evaluation.document())
    console().print(_table(evaluation, str(run)), f"written to {file}")


def _table(evaluation: Evaluation, title: str) -> Table:
    table = Table(title=title)
    table.add_column("score")
    table.add_column("clean", justify="right")
    shifted = evaluation.shifted_mean
    if shifted is not None:
        table.add_column("corrupted", justify="right")
    for name, value in vars(evaluation.clean).items():
        cells = [f"{value:.4f}"]
        if shifted is not None:
            cells.append(f"{getattr(shifted, name):.4f}")
        table.add_row(name.replace("_", " "), *cells)
    return table
