"""``tepui train``: train one ensemble into a run folder."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

from torch import nn
from torch.utils.data import Dataset

from tepui.cli.architecture import fitted
from tepui.cli.console import console
from tepui.cli.datasets import (
    FEATURES,
    HEADS,
    Data,
    part,
    place_of,
    unlabeled_data,
    warn_of_compiling,
)
from tepui.cli.extractor import extractor_and_head
from tepui.cli.folders import folder_for, require_free, resumable
from tepui.cli.kept_options import Keeping
from tepui.cli.known import KnownLoss
from tepui.cli.loss import check_loss_given, loss_named
from tepui.cli.remembered import options_again, remember
from tepui.cli.tracking import TrackerName, trackers_named
from tepui.cli.validation import validation_data
from tepui.core.checks import require
from tepui.core.counted import counted
from tepui.core.replacing import check_writable
from tepui.core.seeding import SEED
from tepui.core.task import Task
from tepui.data import Digits
from tepui.data.preparation import preparation_of
from tepui.ensembles.ensemble import Ensemble
from tepui.losses import task_of
from tepui.methods import DeepEnsemble, Method
from tepui.studies.extracted import FeatureCache
from tepui.training import SGD, AdamW, exchange_here, fit
from tepui.training.progress import Style
from tepui.training.run import Run
from tepui.training.timeline import in_words

EXAMPLE = "tepui train --method SAM --members 3 --out runs/sam"


def train(
    settings: Mapping[str, Any],
    options: str,
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
    class_weights: list[float] | Literal["balanced"] | None = None,
    validation: float | Data | None = None,
    unlabeled: Data | None = None,
    extractor: str | None = None,
    device: str | None = None,
    track: list[TrackerName] | None = None,
    out: Path | None = None,
    resume: bool = False,
    branch_from: Path | None = None,
    quiet: bool = False,
) -> None:
    """Train one ensemble into a run folder.

    Args:
        settings: Further fields of TrainingSpec and ExecutionSpec, one option each.
        options: All of them as a file, to be kept in the run folder.
        data: The data set; its training part is used.
        model: The members' architecture; ConvNet by default, for rows of numbers MLP.
            Number of classes, channels, image size and number of columns follow from
            the data unless given. With --extractor,
            the architecture of the heads; by default the extractor's last layer, newly
            initialized.
        method: How to train.
        members: Number of members; by default one per seed, or three.
        seed: Seed of all random draws.
        seeds: One seed per member instead, such as: --seeds 13 17 27
        epochs: Length of the run; SAM and SharpBalance want more than the default.
        optimizer: SGD (learning rate 0.1) by default, or AdamW; such as: --optimizer
            'AdamW(lr=0.001)'
        loss: What members minimize, which says what their outputs mean, such as: --loss
            GaussianNLL or --loss 'Quantiles(levels=[0.1, 0.9])'; CrossEntropy by
            default, that is, a choice between classes. How many outputs a model has
            follows from it and the data.
        label_smoothing: Share of each target spread over all classes by CrossEntropy;
            one value, or one per member.
        class_weights: A factor on the loss of every class by CrossEntropy, such as:
            --class-weights 1 4; or balanced, for classes that count the same in all.
        validation: Share of the training data to hold out for validation, or a data
            set of its own, such as: --validation ImageFolder --validation.path held_out
            (all of its images; of a table all rows, of others the test part).
        unlabeled: Data for members to disagree on (A2D, DivDis), whose labels are not
            read, such as: --unlabeled UnlabeledFolder --unlabeled.path photos. Only
            labeled samples of the same kind can tell whether that helps there.
        extractor: Train only heads, on features that are computed once and kept in the
            run folder: of the first member of a run (RUN, or RUN:mypackage.Net for a
            model of your own), or of what a class or function of yours returns
            (mypackage.body).
        device: Where to train; a GPU if there is one.
        track: Show the run in tensorboard (event files in the run folder), mlflow or
            wandb, or several of them, each as its own variables set it; the extra
            track installs them.
        out: The run folder; the next free runs/train-NNN by default.
        resume: Continue the run in the folder, by the options kept there unless a file
            of them is named, to the same bits; what would make another run is refused.
        branch_from: Go on from the last checkpoint of this run, left by --stop-after,
            whose method trains as this one does at first, pruned as this or not at all.
        quiet: Show no progress.
    """
    minimized = loss_named(loss, label_smoothing, class_weights)
    folder = folder_for("train", out, resume)
    check_writable(folder)
    warn_of_compiling(settings["compile"], device)
    count = members
    if count is None:
        count = 3 if seeds is None else len(seeds)
    drawn = seed if seeds is None else seeds
    heads = Path() if extractor is None else Path(HEADS)  # where the run is kept
    learned, beside = part(data, train=True), unlabeled_data(unlabeled)
    check_loss_given(loss, learned)
    unseen = validation_data(validation, data, learned)
    if extractor is None:
        factory = fitted(model, learned, task_of(minimized))
        ensemble = Ensemble.build(factory, count, drawn)
    else:
        exchange = exchange_here()
        require_free(folder, resume, FEATURES, heads)
        exchange.wait()  # from now on the folder is ours
        augment = settings["augment"]
        require(not augment, "--augment", "be left out with --extractor", augment)
        task = task_of(minimized)
        front, head = extractor_and_head(extractor, model, learned, task)
        ensemble = Ensemble.on_features(front.to(place_of(device)), head, count, drawn)
        shown: Style = "none" if quiet or not exchange.writer else "auto"
        cache = FeatureCache(front, folder / FEATURES, shown)
        ensemble.preparation = preparation_of(learned)
        with exchange.writer_first():
            learned = cache.read(learned)
            beside = None if beside is None else cache.read(beside)
            unseen = cache.read(unseen) if isinstance(unseen, Dataset) else unseen
    record = partial(remember, folder, data, model, extractor, validation)
    kept = Keeping(folder, options, record)
    with resumable(folder, optimizer):
        run = fit(
            ensemble.heads,
            learned,
            method=method,
            epochs=epochs,
            loss=minimized,
            optimizer=optimizer or SGD(),
            validation=unseen,
            unlabeled=beside,
            device=device,
            callbacks=[kept, *trackers_named(track)],
            out=folder / heads,
            resume=resume,
            branch_from=None if branch_from is None else branch_from / heads,
            progress="none" if quiet else "auto",
            **settings,
        )
    done = f"stopped after {len(run.history)} of {counted(epochs, 'epoch')}"
    if len(run.history) < epochs and run.stopped_by is None:
        console().print(f"{done}; continue with --resume --out {folder}")
        return
    if extractor is not None and exchange_here().writer:
        ensemble.save(folder, overwrite=True)
    if run.stopped_by is not None:
        console().print(f"{done} by {run.stopped_by}", markup=False)
    console().print(f"trained {counted(count, 'member')} ({_losses(run)}) in {folder}")
    if run.timeline:
        console().print(f"time: {in_words(run.timeline)}")
    chooses = task_of(minimized) == Task("classification")
    then = "calibrate" if chooses and validation is not None else "evaluate"
    again = options_again(folder, data, model)
    console().print(f"next: tepui {then} {folder}{again}", markup=False)


def _losses(run: Run) -> str:
    """Return the losses of the epochs whose weights were kept, and which these are."""
    kept = run.end.kept
    losses = run.kept_losses() if kept else run.history[-1].loss
    said = ", ".join(f"{loss:.4f}" for loss in losses if loss is not None)
    if not kept:
        return f"loss {said}"
    epochs = ", ".join(map(str, kept))
    return f"loss {said} in epochs {epochs}, whose weights are kept as the best"
