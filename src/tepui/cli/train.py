"""``tepui train``: train one ensemble into a run folder."""

from pathlib import Path

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


def train(
    *,
    data: Data = Text("Digits", "data"),  # noqa: B008 - a frozen value
    model: Model | None = None,
    method: Method = Text("DeepEnsemble", "method"),  # noqa: B008
    members: Whole | None = None,
    seeds: Wholes | None = None,
    epochs: Whole = 12,
    loss: Loss | None = None,
    optimizer: Optimizer | None = None,
    augment: Augmentations | None = None,
    validation: Share | None = None,
    extractor: Extractor | None = None,
    out: Path | None = None,
    resume: bool = False,
    config: str | None = None,
    set: Settings | None = None,
) -> None:
    """Train one ensemble into a run folder.

    Such as:

        tepui train --method SAM --members 3 --out runs/sam
        tepui train --data 'ImageFolder(path=photos)' --validation 0.2
        tepui train --data 'Table(path=flats.csv, target=price)' --loss MSE

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
        optimizer: SGD (the default) or AdamW, such as AdamW(lr=0.001).
        augment: Random changes of image batches, in order, such as TrivialAugment
            RandomCrop(4) HorizontalFlip.
        validation: Share of the training data to hold out, or other data: of a folder
            of images or a table all, of others the test part.
        extractor: Train only heads, on features that are computed once: of the first
            member of a run (RUN), or of what a class or function of yours returns
            (mypackage.body).
        out: The run folder; the next free runs/train-NNN by default.
        resume: Continue the run in --out as it was asked for, to the same bits.
        config: Read options from this file: YAML, or the options.json of a run.
        set: Anything else, such as batch_size=32; tepui settings lists it.
    """
    options = dict(locals())
    from torch.utils.data import Dataset

    from tepui.cli.console import console
    from tepui.cli.folders import Keeping, folder_for, require_free, resumable
    from tepui.cli.members import materials, trackers_named
    from tepui.cli.settings import read_settings
    from tepui.core.checks import require
    from tepui.core.text import counted
    from tepui.data.preparation import preparation_of
    from tepui.ensembles.ensemble import Ensemble
    from tepui.studies.extracted import FeatureCache
    from tepui.training import exchange_here, fit
    from tepui.training.numerics import place_of
    from tepui.training.progress import Style
    from tepui.training.recorded_run import FEATURES, HEADS

    further = read_settings("train", set)
    branch_from, track = further.pop("branch_from", None), further.pop("track", None)
    beside, progress = further.pop("unlabeled", None), further.pop("progress", "auto")
    task = further.pop("task", None)
    further |= {} if optimizer is None else {"optimizer": optimizer.read()}
    further |= {"augment": [text.read() for text in augment]} if augment else {}
    folder, exchange = folder_for("train", out, resume), exchange_here()
    heads = Path() if extractor is None else Path(HEADS)  # where the run is
    if extractor is not None:
        unchanged = "be left out with --extractor"
        require("augment" not in further, "--augment", unchanged, augment)
        require_free(folder, resume, FEATURES, heads)
        exchange.wait()  # from now on the folder is ours
    several = len(seeds) if seeds and len(seeds) > 1 else 3
    count = several if members is None else members
    given = materials(data, model, loss, validation, extractor, beside, seeds, task)
    learned, beside, unseen = given.data, given.unlabeled, given.validation
    if given.extractor is None:
        ensemble = Ensemble.build(given.factory, count, given.seed)
    else:
        front = given.extractor.to(place_of(further.get("device")))
        ensemble = Ensemble.on_features(front, given.factory, count, given.seed)
        shown: Style = progress if exchange.writer else "none"
        cache = FeatureCache(front, folder / FEATURES, shown)
        ensemble.preparation = preparation_of(learned)
        with exchange.writer_first():
            learned = cache.read(learned)
            beside = None if beside is None else cache.read(beside)
            unseen = cache.read(unseen) if isinstance(unseen, Dataset) else unseen
    kept = Keeping(folder, "train", options)
    with resumable(folder, "train"):
        run = fit(
            ensemble.heads,
            learned,
            method=method.read(),
            epochs=epochs,
            loss=given.loss,
            validation=unseen,
            unlabeled=beside,
            callbacks=[kept, *trackers_named(track)],
            out=folder / heads,
            resume=resume,
            branch_from=None if branch_from is None else branch_from / heads,
            progress=progress,
            **further,
        )
    terminal = console()
    done = f"stopped after {len(run.history)} of {counted(epochs, 'epoch')}"
    if len(run.history) < epochs and run.stopped_by is None:
        terminal.print(f"{done}; continue: tepui train --resume --out {folder}")
        return
    if extractor is not None and exchange.writer:
        ensemble.save(folder, overwrite=True)
    if run.stopped_by is not None:
        terminal.print(f"{done} by {run.stopped_by}")
    said = ", ".join(f"{loss:.4f}" for loss in run.history[-1].trained)
    terminal.print(f"trained {counted(count, 'member')} (loss {said}) in {folder}")
    then = "calibrate" if given.task.chooses and validation is not None else "evaluate"
    terminal.print(f"next: tepui {then} {folder}")
