"""``tepui train``: train one ensemble into a run folder."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from torch import nn

from tepui.cli.architecture import fitted
from tepui.cli.console import console
from tepui.cli.datasets import Data, part, place_of
from tepui.cli.extractor import extractor_and_head
from tepui.cli.folders import folder_for, require_free
from tepui.core.checks import require
from tepui.data import Augmentation, Digits
from tepui.ensembles.ensemble import Ensemble
from tepui.losses import CrossEntropy
from tepui.methods import DeepEnsemble, Method
from tepui.modules.features import cached_features
from tepui.modules.pruning import Prune
from tepui.training import SGD, AdamW, Cosine, Schedule, TensorBoard, fit

EXAMPLE = "tepui train --method SAM --method.rho 0.1 --members 3 --out runs/sam"


def train(
    data: Data = Digits,
    model: Callable[[], nn.Module] | None = None,
    method: Method = DeepEnsemble(),  # noqa: B008 - a frozen value
    members: int | None = None,
    seed: int = 13,
    seeds: list[int] | None = None,
    epochs: int = 12,
    batch_size: int = 64,
    optimizer: SGD | AdamW | None = None,
    schedule: Schedule | None = None,
    augment: list[Augmentation] | None = None,
    label_smoothing: float | tuple[float, ...] = 0.0,
    validation: float | None = None,
    unlabeled: Data | None = None,
    keep: Literal["last", "best"] = "last",
    accumulate: int = 1,
    clip_norm: float | None = None,
    prune: Prune | None = None,
    average: float | None = None,
    extractor: Path | None = None,
    device: str | None = None,
    precision: Literal["auto", "float32", "tf32", "bfloat16"] = "auto",
    deterministic: bool = False,
    workers: int = 0,
    checkpoint_every: int = 1,
    tensorboard: bool = False,
    out: Path | None = None,
    resume: bool = False,
    quiet: bool = False,
) -> None:
    """Train one ensemble into a run folder.

    Args:
        data: The data set; its training part is used.
        model: The members' architecture; ConvNet by default. Classes, channels and
            size of images follow from the data unless they are written. With
            --extractor that of their heads; by default the extractor's own last layer,
            drawn anew.
        method: How to train.
        members: How many members; as many as seeds, or three.
        seed: What all draws derive from.
        seeds: One seed per member instead, such as: --seeds 13 17 27
        epochs: How long.
        batch_size: Samples per step and member.
        optimizer: SGD (learning rate 0.1) or AdamW.
        schedule: Learning rate over time; a cosine by default.
        augment: Random changes of the images, such as: --augment RandomCrop
        label_smoothing: Share of each target spread over all classes; one value, or
            one per member.
        validation: Share of the training data to hold out.
        unlabeled: Data for members to disagree on (A2D, DivDis), their labels unread,
            such as: --unlabeled UnlabeledFolder --unlabeled.path photos
        keep: Each member's last weights, or its best by validation loss.
        accumulate: Split each batch into this many parts to save memory.
        clip_norm: Bound on the norm of the gradient.
        prune: Remove the smallest weights, such as: --prune.sparsity 0.9
        average: Share of the run, at its end, over which each member's weights are
            averaged.
        extractor: Train only heads, on features of the first member of this run, which
            are computed once and kept in the run folder.
        device: Where to train; a GPU if there is one.
        precision: auto is bfloat16 on a GPU and float32 elsewhere.
        deterministic: Choose only algorithms that repeat to the bit.
        workers: Processes that load data not held in tensors.
        checkpoint_every: Epochs between checkpoints.
        tensorboard: Write event files into the run folder.
        out: The run folder; the next free runs/train-NNN by default.
        resume: Continue the run in the folder, to the same bits.
        quiet: Show no progress.
    """
    folder = folder_for("train", out, resume)
    count = members or (3 if seeds is None else len(seeds))
    drawn = seed if seeds is None else seeds
    learned, beside = part(data, train=True), None if unlabeled is None else unlabeled()
    if extractor is None:
        ensemble = Ensemble.build(fitted(model, learned), count, drawn)
    else:
        require_free(folder, resume)
        require(not augment, "--augment", "be left out beside --extractor", augment)
        front, head = extractor_and_head(extractor, model)
        ensemble = Ensemble.on_features(front.to(place_of(device)), head, count, drawn)
        read = partial(cached_features, front, folder=folder / "features")
        learned, beside = read(learned), None if beside is None else read(beside)
    run = fit(
        ensemble.heads,
        learned,
        method=method,
        epochs=epochs,
        batch_size=batch_size,
        loss=CrossEntropy(label_smoothing),
        optimizer=optimizer or SGD(),
        schedule=schedule or Cosine(),
        augment=augment or (),
        validation=validation,
        unlabeled=beside,
        keep=keep,
        accumulate=accumulate,
        clip_norm=clip_norm,
        prune=prune,
        average=average,
        device=device,
        precision=precision,
        deterministic=deterministic,
        workers=workers,
        callbacks=[TensorBoard(folder / "tensorboard")] if tensorboard else [],
        out=folder if extractor is None else folder / "heads",
        resume=resume,
        checkpoint_every=checkpoint_every,
        progress="none" if quiet else "auto",
    )
    if extractor is not None:
        ensemble.save(folder, overwrite=True)
    losses = ", ".join(f"{loss:.4f}" for loss in run.history[-1].trained)
    console().print(f"trained {len(run.ensemble)} members (loss {losses}) in {folder}")
