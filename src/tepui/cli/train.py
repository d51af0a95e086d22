"""``tepui train``: train one ensemble into a run folder."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from tepui.cli.architecture import fitted
from tepui.cli.console import console
from tepui.cli.datasets import Data, part, place_of
from tepui.cli.extractor import extractor_and_head
from tepui.cli.folders import folder_for, require_free, resumable
from tepui.cli.parsing import KnownLoss
from tepui.core.checks import require
from tepui.core.replacing import check_writable
from tepui.core.seeding import SEED
from tepui.data import Digits
from tepui.data.preparation import preparation_of
from tepui.ensembles.ensemble import Ensemble
from tepui.losses import CrossEntropy, task_of
from tepui.methods import DeepEnsemble, Method
from tepui.modules.features import cached_features
from tepui.training import SGD, AdamW, TensorBoard, exchange_here, fit
from tepui.training.timeline import in_words

EXAMPLE = "tepui train --method SAM --method.rho 0.1 --members 3 --out runs/sam"


def train(
    settings: Mapping[str, Any],
    data: Data = Digits,
    model: Callable[[], nn.Module] | None = None,
    method: Method = DeepEnsemble(),  # noqa: B008 - a frozen value
    members: int | None = None,
    seed: int = SEED,
    seeds: list[int] | None = None,
    epochs: int = 12,
    optimizer: SGD | AdamW | None = None,
    loss: KnownLoss | None = None,
    label_smoothing: float | tuple[float, ...] = 0.0,
    validation: float | None = None,
    unlabeled: Data | None = None,
    extractor: Path | None = None,
    device: str | None = None,
    tensorboard: bool = False,
    out: Path | None = None,
    resume: bool = False,
    branch_from: Path | None = None,
    quiet: bool = False,
) -> None:
    """Train one ensemble into a run folder.

    Args:
        settings: Further fields of TrainingSpec and ExecutionSpec, one option each.
        data: The data set; its training part is used.
        model: The members' architecture; ConvNet by default. Number of classes,
            channels and image size follow from the data unless given. With --extractor,
            the architecture of the heads; by default the extractor's last layer, newly
            initialized.
        method: How to train.
        members: Number of members; by default one per seed, or three.
        seed: Seed of all random draws.
        seeds: One seed per member instead, such as: --seeds 13 17 27
        epochs: Length of the run.
        optimizer: SGD (learning rate 0.1) by default, or AdamW.
        loss: What members minimize, which says what their outputs mean; CrossEntropy
            by default, that is, a choice between classes. How many outputs a model has
            follows from it and the data.
        label_smoothing: Share of each target spread over all classes by CrossEntropy;
            one value, or one per member.
        validation: Share of the training data to hold out for validation.
        unlabeled: Data for members to disagree on (A2D, DivDis), whose labels are not
            read, such as: --unlabeled UnlabeledFolder --unlabeled.path photos
        extractor: Train only heads, on features of this run's first member, which are
            computed once and kept in the run folder.
        device: Where to train; a GPU if there is one.
        tensorboard: Write event files into the run folder.
        out: The run folder; the next free runs/train-NNN by default.
        resume: Continue the run in the folder, to the same bits.
        branch_from: Go on from the last checkpoint of this run, left by --stop-after,
            whose method trains as this one does at first.
        quiet: Show no progress.
    """
    rule = f"be left out with --loss {type(loss).__name__}"
    free = loss is None or label_smoothing == 0.0
    require(free, "--label-smoothing", rule, label_smoothing)
    minimized = CrossEntropy(label_smoothing) if loss is None else loss
    folder = folder_for("train", out, resume)
    check_writable(folder)
    count = members or (3 if seeds is None else len(seeds))
    drawn = seed if seeds is None else seeds
    heads = Path() if extractor is None else Path("heads")  # where the run is kept
    learned, beside = part(data, train=True), None if unlabeled is None else unlabeled()
    if extractor is None:
        factory = fitted(model, learned, task_of(minimized))
        ensemble = Ensemble.build(factory, count, drawn)
    else:
        exchange = exchange_here()
        require_free(folder, resume)
        exchange.wait()  # from now on the folder is ours
        augment = settings["augment"]
        require(not augment, "--augment", "be left out with --extractor", augment)
        front, head = extractor_and_head(extractor, model)
        ensemble = Ensemble.on_features(front.to(place_of(device)), head, count, drawn)
        read = partial(cached_features, front, folder=folder / "features")
        ensemble.preparation = preparation_of(learned)
        with exchange.writer_first():
            learned = read(learned)
            beside = None if beside is None else read(beside)
    with resumable(folder):
        run = fit(
            ensemble.heads,
            learned,
            method=method,
            epochs=epochs,
            loss=minimized,
            optimizer=optimizer or SGD(),
            validation=validation,
            unlabeled=beside,
            device=device,
            callbacks=[TensorBoard(folder / "tensorboard")] if tensorboard else [],
            out=folder / heads,
            resume=resume,
            branch_from=None if branch_from is None else branch_from / heads,
            progress="none" if quiet else "auto",
            **settings,
        )
    if len(run.history) < epochs:
        done = f"stopped after {len(run.history)} of {epochs} epochs"
        console().print(f"{done}; continue with --resume --out {folder}")
        return
    if extractor is not None and exchange_here().writer:
        ensemble.save(folder, overwrite=True)
    losses = ", ".join(f"{loss:.4f}" for loss in run.history[-1].trained)
    members_in_words = "1 member" if count == 1 else f"{count} members"
    console().print(f"trained {members_in_words} (loss {losses}) in {folder}")
    if run.timeline:
        console().print(f"time: {in_words(run.timeline)}")
