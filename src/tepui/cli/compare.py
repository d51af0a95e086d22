"""``tepui compare``: train several methods, print the table, write the report."""

from pathlib import Path
from typing import Any

from tepui.cli.values import (
    Data,
    DataSets,
    Loss,
    Methods,
    Model,
    Settings,
    Share,
    Text,
    Whole,
    Wholes,
)

EXAMPLES = (
    "tepui compare --methods DeepEnsemble 'SharpBalance(rho=0.05)' --ensembles 3",
    "tepui compare --data 'ImageFolder(path=photos)' --shifted 'b=ImageFolder(path=b)'",
    "tepui compare --set 'optimizer=AdamW(lr=0.001)' device=cuda",
)
METHODS = [Text(name, "method") for name in ("DeepEnsemble", "SAM", "SharpBalance")]


def compare(
    *,
    data: Data = Text("Digits", "data"),  # noqa: B008 - a frozen value
    model: Model | None = None,
    methods: Methods = METHODS,
    members: Whole = 3,
    ensembles: Whole | None = None,
    seeds: Wholes | None = None,
    epochs: Whole = 12,
    loss: Loss | None = None,
    validation: Share | None = None,
    shifted: DataSets | None = None,
    ood: DataSets | None = None,
    out: Path | None = None,
    resume: bool = False,
    config: str | None = None,
    set: Settings | None = None,
) -> None:
    """Train several methods on one data set and compare them.

    Args:
        data: The data set.
        model: The members' architecture; ConvNet by default, for rows of numbers MLP.
            Number of classes, channels, image size and number of columns follow from
            the data unless given.
        methods: What to compare, such as DeepEnsemble SAM SharpBalance(rho=0.05).
        members: Members per ensemble.
        ensembles: Ensembles per method, for intervals; two by default, or as many as
            there are seeds for.
        seeds: The seed of all random draws, or one per member for all ensembles.
        epochs: Length of the run; SAM and SharpBalance want more than the default.
        loss: What members minimize, which says what their outputs mean; CrossEntropy
            by default.
        validation: Share of the training data to hold out, or other data: of a folder
            of images or a table all, of others the test part.
        shifted: Labeled test data that shifted by themselves, as NAME=DATASET, such as
            sketch=ImageFolder(path=sketches).
        ood: Data the ensembles should find unfamiliar, as NAME=DATASET, such as
            noise=UniformNoise.
        out: The folder; the next free runs/compare-NNN by default.
        resume: Continue the comparison in --out as it was asked for, to the same bits;
            methods that it has already stay in its table.
        config: Read options from this file: YAML, or the options.json of a comparison.
        set: Anything else, such as batch_size=32; tepui settings --of compare lists it.
    """
    options = dict(locals())
    from dataclasses import replace

    from tepui.cli.architecture import fitted, has_masks
    from tepui.cli.asked import Asked, Keeping, methods_with_earlier
    from tepui.cli.console import console
    from tepui.cli.datasets import (
        corrupted_images,
        corruptions_for,
        natural_shifts,
        part,
        unfamiliar,
    )
    from tepui.cli.extractor import extractor_and_head
    from tepui.cli.folders import folder_for, resumable
    from tepui.cli.further import read_settings
    from tepui.cli.loss import loss_for
    from tepui.cli.tested import check_unseen
    from tepui.cli.tracking import trackers_named
    from tepui.cli.validation import validation_data
    from tepui.core.replacing import check_writable
    from tepui.core.seeding import SEED
    from tepui.data.shifts import Shifts
    from tepui.losses import task_of
    from tepui.report import printed_table, write_report
    from tepui.report.story import told
    from tepui.report.unfamiliar import unfamiliar_sentence
    from tepui.studies import compare as compare_methods
    from tepui.studies import load_reports
    from tepui.studies.executors import Processes
    from tepui.training import exchange_here

    further = read_settings("compare", set)
    named: dict[str, Any] = {
        name: further.pop(name, default)
        for name, default in (
            ("corruptions", None),
            ("extractor", None),
            ("metrics", None),
            ("sharpness", 100),
            ("track", None),
            ("unlabeled", None),
        )
    }
    executor = further.pop("executor", None) or Processes()
    alone = isinstance(executor, Processes)
    at_once = further.pop("at_once", 1 if alone else None)
    folder = folder_for("compare", out, resume)
    check_writable(folder)
    terminal = console()
    made_by = data.read()
    train, test = part(made_by, train=True), part(made_by, train=False)
    minimized = loss_for(loss, train)
    task = task_of(minimized)
    natural = {name: text.read() for name, text in (shifted or {}).items()}
    check_unseen(natural, made_by)
    shifts = Shifts({}, natural_shifts(natural, test))
    strength = corruptions_for(test, named["corruptions"])
    if strength != "none":
        shifts = replace(shifts, copies=corrupted_images(test, strength))
    architecture = None if model is None else model.read()
    if named["extractor"] is None:
        front, factory = None, fitted(architecture, train, task)
    else:
        front, factory = extractor_and_head(
            named["extractor"], architecture, train, task
        )
    unseen: Any = validation
    if isinstance(validation, Text):
        unseen = validation_data(validation.read(), made_by, train)
    beside, drawn = named["unlabeled"], seeds or [SEED]
    samples = {"num_samples": named["sharpness"]}
    progress = further.pop("progress", "auto")
    asked = Asked("compare", options)
    kept = Keeping(folder, methods_with_earlier(asked, folder))
    with resumable(folder, "compare", further.get("optimizer")):
        comparison = compare_methods(
            [text.read() for text in methods],
            factory,
            train,
            test,
            shifted=shifts,
            ood=unfamiliar({n: t.read() for n, t in (ood or {}).items()}, test),
            validation=unseen,
            unlabeled=None if beside is None else beside(),
            metrics=_by_name(named["metrics"]),
            members=members,
            ensembles=ensembles,
            seed=drawn[0] if len(drawn) == 1 else drawn,
            epochs=epochs,
            loss=minimized,
            out=folder,
            sharpness=samples if named["sharpness"] and not has_masks(train) else None,
            extractor=front,
            title=f"Ensembles on {type(train).__name__}",
            resume=resume,
            at_once=at_once,
            executor=executor,
            announce=(lambda line: None) if progress == "none" else terminal.print,
            progress=progress,
            callbacks=[kept, *trackers_named(named["track"])],
            **further,
        )
    if not exchange_here().writer:
        return
    kept.keep()  # which may have changed if nothing was left to train
    loaded = load_reports([folder])
    terminal.print(printed_table(comparison))
    if said := unfamiliar_sentence(comparison):
        terminal.print(said)
    for group in loaded.groups:
        terminal.print(told(group).claim)
    terminal.print(f"report: {write_report(loaded, folder)}")
    terminal.print(f"next: tepui report {folder} --open")


def _by_name(metrics: Any) -> dict[str, Any]:
    """Return metrics of one's own by their names."""
    several = metrics if isinstance(metrics, list) else [metrics] if metrics else []
    return {metric.__name__: metric for metric in several}
