"""``tepui train``: train one ensemble into a run folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tepui.cli.values import (
    Augmentations,
    Data,
    Extractor,
    Loss,
    Method,
    Model,
    Optimizer,
    Settings,
    Share,
    Text,
    Whole,
    Wholes,
)

if TYPE_CHECKING:
    from tepui.training.run import Run

EXAMPLES = (
    "tepui train --method SAM --members 3 --out runs/sam",
    "tepui train --data 'ImageFolder(path=photos)' --validation 0.2",
    "tepui train --data 'Table(path=flats.csv, target=price)' --loss MSE",
)


def train(
    *,
    data: Data = Text("Digits", "data"),  # noqa: B008 - a frozen value
    model: Model | None = None,
    method: Method = Text("DeepEnsemble", "method"),  # noqa: B008
    members: Whole | None = None,
    seeds: Wholes | None = None,
    epochs: Whole = 12,
    loss: Loss | None = None,
    optimizer: Optimizer = Text("SGD", "optimizer"),  # noqa: B008
    augment: Augmentations | None = None,
    validation: Share | None = None,
    extractor: Extractor | None = None,
    out: Path | None = None,
    resume: bool = False,
    config: str | None = None,
    set: Settings | None = None,
) -> None:
    """Train one ensemble into a run folder.

    Args:
        data: The data set; its training part is used.
        model: The members' architecture; ConvNet by default, for rows of numbers MLP.
            Number of classes, channels, image size and number of columns follow from
            the data unless given. With --extractor, the architecture of the heads; by
            default the extractor's last layer, newly initialized.
        method: How to train.
        members: Number of members; by default one per seed, or three.
        seeds: The seed of all random draws, or one per member.
        epochs: Length of the run; SAM and SharpBalance want more than the default.
        loss: What members minimize, which says what their outputs mean, such as
            GaussianNLL or CrossEntropy(class_weights=balanced); CrossEntropy by
            default, that is, a choice between classes.
        optimizer: SGD or AdamW, such as AdamW(lr=0.001).
        augment: Random changes of image batches, in order, such as TrivialAugment
            RandomCrop(4) HorizontalFlip.
        validation: Share of the training data to hold out, or other data: of a folder
            of images or a table all, of others the test part.
        extractor: Train only heads, on features that are computed once: of the first
            member of a run (RUN, or RUN:mypackage.Net for a model of your own), or of
            what a class or function of yours returns (mypackage.body).
        out: The run folder; the next free runs/train-NNN by default.
        resume: Continue the run in --out as it was asked for, to the same bits.
        config: Read options from this file: YAML, or the options.json of a run.
        set: Anything else, such as batch_size=32; tepui settings lists it.
    """
    options = dict(locals())
    from torch.utils.data import Dataset

    from tepui.cli.architecture import fitted
    from tepui.cli.asked import Asked, Keeping
    from tepui.cli.console import console
    from tepui.cli.datasets import FEATURES, HEADS, part, place_of
    from tepui.cli.extractor import extractor_and_head
    from tepui.cli.folders import folder_for, require_free, resumable
    from tepui.cli.further import read_settings
    from tepui.cli.loss import loss_for
    from tepui.cli.remembered import said_again
    from tepui.cli.tracking import trackers_named
    from tepui.cli.validation import validation_data
    from tepui.core.checks import require
    from tepui.core.counted import counted
    from tepui.core.replacing import check_writable
    from tepui.core.seeding import SEED
    from tepui.core.task import Task
    from tepui.data.preparation import preparation_of
    from tepui.ensembles.ensemble import Ensemble
    from tepui.losses import task_of
    from tepui.studies.extracted import FeatureCache
    from tepui.training import exchange_here, fit
    from tepui.training.progress import Style
    from tepui.training.timeline import in_words

    further = read_settings("train", set)
    branch_from, track = further.pop("branch_from", None), further.pop("track", None)
    beside = further.pop("unlabeled", None)
    progress = further.pop("progress", "auto")
    folder = folder_for("train", out, resume)
    check_writable(folder)
    drawn = seeds or [SEED]
    count = (len(drawn) if len(drawn) > 1 else 3) if members is None else members
    heads = Path() if extractor is None else Path(HEADS)  # where the run is kept
    learned = part(data.read(), train=True)
    beside = None if beside is None else beside()
    minimized = loss_for(loss, learned)
    task = task_of(minimized)
    unseen: Any = validation
    if isinstance(validation, Text):
        unseen = validation_data(validation.read(), data.read(), learned)
    architecture = None if model is None else model.read()
    seed = drawn[0] if len(drawn) == 1 else drawn
    policies = [text.read() for text in augment or ()]
    if extractor is None:
        factory = fitted(architecture, learned, task)
        ensemble = Ensemble.build(factory, count, seed)
    else:
        exchange = exchange_here()
        require_free(folder, resume, FEATURES, heads)
        exchange.wait()  # from now on the folder is ours
        require(not augment, "--augment", "be left out with --extractor", augment)
        front, head = extractor_and_head(extractor, architecture, learned, task)
        front = front.to(place_of(further.get("device")))
        ensemble = Ensemble.on_features(front, head, count, seed)
        shown: Style = progress if exchange.writer else "none"
        cache = FeatureCache(front, folder / FEATURES, shown)
        ensemble.preparation = preparation_of(learned)
        with exchange.writer_first():
            learned = cache.read(learned)
            beside = None if beside is None else cache.read(beside)
            unseen = cache.read(unseen) if isinstance(unseen, Dataset) else unseen
    chosen = optimizer.read()
    kept = Keeping(folder, Asked("train", options))
    with resumable(folder, "train", chosen):
        run = fit(
            ensemble.heads,
            learned,
            method=method.read(),
            epochs=epochs,
            loss=minimized,
            optimizer=chosen,
            augment=policies,
            validation=unseen,
            unlabeled=beside,
            callbacks=[kept, *trackers_named(track)],
            out=folder / heads,
            resume=resume,
            branch_from=None if branch_from is None else branch_from / heads,
            progress=progress,
            **further,
        )
    done = f"stopped after {len(run.history)} of {counted(epochs, 'epoch')}"
    if len(run.history) < epochs and run.stopped_by is None:
        console().print(f"{done}; continue: tepui train --resume --out {folder}")
        return
    if extractor is not None and exchange_here().writer:
        ensemble.save(folder, overwrite=True)
    if run.stopped_by is not None:
        console().print(f"{done} by {run.stopped_by}")
    console().print(f"trained {counted(count, 'member')} ({_losses(run)}) in {folder}")
    if run.timeline:
        console().print(f"time: {in_words(run.timeline)}")
    chooses = task == Task("classification")
    then = "calibrate" if chooses and validation is not None else "evaluate"
    console().print(f"next: tepui {then} {folder}{said_again(data=data, model=model)}")


def _losses(run: "Run") -> str:
    """Return the losses of the epochs whose weights were kept, and which these are."""
    kept = run.end.kept
    losses = run.kept_losses() if kept else run.history[-1].loss
    said = ", ".join(f"{loss:.4f}" for loss in losses if loss is not None)
    if not kept:
        return f"loss {said}"
    epochs = ", ".join(map(str, kept))
    return f"loss {said} in epochs {epochs}, whose weights are kept as the best"
