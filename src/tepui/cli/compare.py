"""``tepui compare``: train several methods, print the table, write the report."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from torch import nn

from tepui.cli.architecture import fitted, has_masks
from tepui.cli.console import console
from tepui.cli.datasets import (
    Data,
    corrupted_images,
    corruptions_for,
    natural_shifts,
    part,
    unfamiliar,
    unlabeled_data,
    warn_of_compiling,
)
from tepui.cli.executors import DEFAULT_RAY, DEFAULT_SLURM, executor_named
from tepui.cli.extractor import extractor_and_head
from tepui.cli.folders import folder_for, resumable
from tepui.cli.kept_methods import with_earlier
from tepui.cli.kept_options import Keeping
from tepui.cli.known import KnownLoss
from tepui.cli.loss import check_loss_given, loss_named
from tepui.cli.own_functions import own_functions
from tepui.cli.plan_table import plan_table
from tepui.cli.remembered import remember
from tepui.cli.tested import check_unseen
from tepui.cli.tracking import TrackerName, trackers_named
from tepui.cli.validation import validation_data
from tepui.core.checks import require
from tepui.core.replacing import check_writable
from tepui.core.seeding import SEED
from tepui.data import Digits
from tepui.data.shifts import Shifts
from tepui.evaluation.stored_logits import LogitType
from tepui.losses import task_of
from tepui.methods import SAM, DeepEnsemble, Method, SharpBalance
from tepui.report import printed_table, write_report
from tepui.report.story import told
from tepui.report.unfamiliar import unfamiliar_sentence
from tepui.studies import compare as compare_methods
from tepui.studies import load_reports
from tepui.studies.comparison_plan import planned_comparison
from tepui.studies.executors import RETRIES, ExecutorName, Ray, Slurm
from tepui.training import SGD, AdamW, exchange_here

DEFAULT_METHODS: list[Method] = [DeepEnsemble(), SAM(), SharpBalance()]
EXAMPLE = (
    "tepui compare --methods DeepEnsemble 'SharpBalance(rho=0.05)' --ensembles 3 "
    "--out runs/digits"
)


def compare(
    settings: Mapping[str, Any],
    options: str,
    data: Data = Digits,
    model: Callable[[], nn.Module] | None = None,
    methods: list[Method] | None = None,
    members: int = 3,
    ensembles: int | None = None,
    seed: int = SEED,
    seeds: list[int] | None = None,
    epochs: int = 12,
    optimizer: SGD | AdamW | None = None,
    loss: KnownLoss | None = None,
    label_smoothing: float | tuple[float, ...] = 0.0,
    class_weights: list[float] | Literal["balanced"] | None = None,
    corruptions: Literal["none", "cifar", "tiny_imagenet", "imagenet"] | None = None,
    shifted: dict[str, Data] | None = None,
    ood: dict[str, Data] | None = None,
    metrics: list[str] | None = None,
    logits_in: LogitType = "float32",
    sharpness: int = 100,
    validation: float | Data | None = None,
    unlabeled: Data | None = None,
    extractor: str | None = None,
    device: str | None = None,
    track: list[TrackerName] | None = None,
    at_once: int | None = None,
    threads: int | None = None,
    executor: ExecutorName = "processes",
    retries: int = RETRIES,
    ray: Ray = DEFAULT_RAY,
    slurm: Slurm = DEFAULT_SLURM,
    out: Path | None = None,
    resume: bool = False,
    quiet: bool = False,
    dry_run: bool = False,
) -> None:
    """Train several methods on one data set and compare them.

    Args:
        settings: Further fields of TrainingSpec and ExecutionSpec, one option each.
        options: All of them as a file, to be kept in the folder.
        data: The data set.
        model: The members' architecture; ConvNet by default, for rows of numbers MLP.
            Number of classes, channels, image size and number of columns follow from
            the data unless given. With --extractor,
            the architecture of the heads; by default the extractor's last layer, newly
            initialized.
        methods: What to compare, each with its arguments where they differ from the
            defaults, such as: --methods DeepEnsemble SAM 'SharpBalance(rho=0.05)'; by
            default DeepEnsemble, SAM and SharpBalance.
        members: Members per ensemble.
        ensembles: Ensembles per method, for intervals; two by default, or as many as
            there are seeds for.
        seed: Seed of all random draws.
        seeds: One seed per member, for all ensembles, instead.
        epochs: Length of the run; SAM and SharpBalance want more than the default.
        optimizer: SGD (learning rate 0.1) by default, or AdamW; such as: --optimizer
            'AdamW(lr=0.001)'
        loss: What members minimize, which says what their outputs mean; CrossEntropy
            by default. How many outputs a model has follows from it and the data.
        label_smoothing: Share of each target spread over all classes by CrossEntropy;
            one value, or one per member.
        class_weights: A factor on the loss of every class by CrossEntropy, such as:
            --class-weights 1 4; or balanced, for classes that count the same in all.
        validation: Share of the training data to hold out for validation, or a data
            set of its own, such as: --validation ImageFolder --validation.path held_out
            (all of its images; of a table all rows, of others the test part).
        unlabeled: Data for the members of A2D and DivDis to disagree on.
        corruptions: Which benchmark's corruption strengths to test under, or none;
            CIFAR's by default for images.
        shifted: Labeled test data that shifted by themselves, as NAME=DATASET, such as:
            --shifted sketch=ImageFolder:PATH
        ood: Data the ensembles should find unfamiliar, as NAME=DATASET, such as: --ood
            noise=UniformNoise textures=UnlabeledFolder:PATH
        metrics: Your own metrics, functions of logits and labels, by path: --metrics
            mypackage.my_metric
        logits_in: How logits are stored: float32, float16 for half the space, or none.
            Scores do not depend on it; without logits the report shows no images.
        sharpness: Number of training samples on which to measure the members'
            sharpness; 0 skips it. It is not measured where every pixel has a class.
        extractor: Train only heads, on features that are computed once for all
            ensembles and kept in the folder: of the first member of a run (RUN, or
            RUN:mypackage.Net for a model of your own), or of what a class or function
            of yours returns (mypackage.body).
        device: Where to train; a GPU if there is one.
        track: Show every run in tensorboard (event files in its folder), mlflow or
            wandb, or several of them, each as its own variables set it; the extra
            track installs them.
        at_once: Ensembles to train at once; one by default, by ray and slurm as many as
            they have room for.
        threads: Threads of each ensemble on a CPU, on which the last digits depend; by
            default one if several are trained at once, else as many as there are.
        executor: Who trains: ``processes`` of this machine, ``ray`` or ``slurm``, which
            the extras of these names install. The folder must then lie where all
            machines reach it.
        retries: How often an ensemble is taken up again after its worker died.
        ray: Of executor ray.
        slurm: Of executor slurm.
        out: The folder; the next free runs/compare-NNN by default.
        resume: Continue the comparison in the folder, by the options kept there unless
            a file of them is named, to the same bits; methods that it has already stay
            in its table.
        quiet: Show no progress.
        dry_run: Only show what is left to do and what it costs.
    """
    if at_once is None and executor == "processes":
        at_once = 1
    folder = folder_for("compare", out, resume)
    if not dry_run:
        check_writable(folder)
    warn_of_compiling(settings["compile"], device)
    terminal = console()
    minimized = loss_named(loss, label_smoothing, class_weights)
    task = task_of(minimized)
    train, test = part(data, train=True), part(data, train=False)
    check_loss_given(loss, train)
    check_unseen(shifted, data)
    shifts = Shifts({}, natural_shifts(shifted, test))
    strength = corruptions_for(test, corruptions)
    if strength != "none":
        shifts = replace(shifts, copies=corrupted_images(test, strength))
    if extractor is None:
        front, factory = None, fitted(model, train, task)
    else:
        front, factory = extractor_and_head(extractor, model, train, task)
    both: dict[str, Any] = {
        "shifted": shifts,
        "ood": unfamiliar(ood, test),
        "validation": validation_data(validation, data, train),
        "unlabeled": unlabeled_data(unlabeled),
        "metrics": own_functions("--metrics", metrics or ()),
        "members": members,
        "ensembles": ensembles,
        "seed": seed if seeds is None else seeds,
        "out": folder,
        "logits_in": logits_in,
        "device": device,
        "epochs": epochs,
        "loss": minimized,
        "optimizer": optimizer or SGD(),
        **settings,
    }
    chosen = methods or DEFAULT_METHODS
    if dry_run:
        rule = "not be asked for with --extractor, whose features have yet to be made"
        require(front is None, "--dry-run", rule, dry_run)
        plans, store = planned_comparison(chosen, factory, train, test, **both)
        if at_once != 1:  # beginnings are shared
            plans["all"] = [*chain.from_iterable(plans.values())]
        terminal.print(plan_table("method", plans, store, runs=folder.parent))
        return
    measured = sharpness and not has_masks(train)
    record = partial(remember, folder, data, model, extractor, validation)
    kept = Keeping(folder, with_earlier(options, folder, chosen), record)
    with resumable(folder, optimizer):
        comparison = compare_methods(
            chosen,
            factory,
            train,
            test,
            sharpness={"num_samples": sharpness} if measured else None,
            extractor=front,
            title=f"Ensembles on {type(train).__name__}",
            resume=resume,
            at_once=at_once,
            threads=threads,
            retries=retries,
            executor=executor_named(executor, ray, slurm),
            announce=(lambda line: None) if quiet else terminal.print,
            progress="none" if quiet else "auto",
            callbacks=[kept, *trackers_named(track)],
            **both,
        )
    if not exchange_here().writer:
        return
    kept.keep()  # which may have changed where nothing was left to train
    loaded = load_reports([folder])
    terminal.print(printed_table(comparison))
    if said := unfamiliar_sentence(comparison):
        terminal.print(said)
    for group in loaded.groups:
        terminal.print(told(group).claim)
    terminal.print(f"report: {write_report(loaded, folder)}")
    terminal.print(f"next: tepui report {folder} --open")
