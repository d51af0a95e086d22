"""``tepui compare``: train several methods, print the table, write the report."""

from pathlib import Path

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
    by_name,
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

    Such as:

        tepui compare --methods DeepEnsemble 'SharpBalance(rho=0.05)' --ensembles 3
        tepui compare --data 'ImageFolder(path=old)' --shifted 'b=ImageFolder(path=b)'
        tepui compare --set 'optimizer=AdamW(lr=0.001)' device=cuda

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
    from tepui.cli.console import console
    from tepui.cli.folders import Keeping, folder_for, resumable
    from tepui.cli.members import has_masks, materials, trackers_named
    from tepui.cli.settings import read_settings
    from tepui.data import sources
    from tepui.report import printed_table, write_report
    from tepui.report.loading import load_reports
    from tepui.report.sections import claim
    from tepui.studies import compare as compare_methods
    from tepui.studies.executors import Processes
    from tepui.training import exchange_here

    further = read_settings("compare", set)
    track, metrics = further.pop("track", None), further.pop("metrics", None)
    front, beside = further.pop("extractor", None), further.pop("unlabeled", None)
    asked_for, samples = further.pop("corruptions", None), further.pop("sharpness", 100)
    executor = further.pop("executor", None) or Processes()
    equal = further.pop("equal", "gradients")
    alone = isinstance(executor, Processes)
    at_once = further.pop("at_once", 1 if alone else None)
    progress = further.pop("progress", "auto")
    folder, terminal = folder_for("compare", out, resume), console()
    made_by = data.read()
    test = sources.part(made_by, train=False)
    copies = sources.corrupted_copies(test, asked_for, None)
    shifts = sources.shifts_of(test, copies, shifted, made_by)
    given = materials(data, model, loss, validation, front, beside, seeds)
    measured = samples and not has_masks(given.data)
    several = metrics if isinstance(metrics, list) else [metrics] if metrics else []
    kept = Keeping(folder, "compare", options)
    with resumable(folder, "compare"):
        found = compare_methods(
            [text.read() for text in methods],
            given.factory,
            given.data,
            test,
            shifted=shifts,
            ood=sources.unfamiliar(ood, test),
            validation=given.validation,
            unlabeled=given.unlabeled,
            metrics=by_name("metrics", several),
            members=members,
            ensembles=ensembles,
            seed=given.seed,
            epochs=epochs,
            loss=given.loss,
            out=folder,
            sharpness={"num_samples": samples} if measured else None,
            extractor=given.extractor,
            title=f"Ensembles on {type(given.data).__name__}",
            resume=resume,
            at_once=at_once,
            equal=None if equal == "none" else equal,
            executor=executor,
            announce=(lambda line: None) if progress == "none" else terminal.print,
            progress=progress,
            callbacks=[kept, *trackers_named(track)],
            **further,
        )
    if not exchange_here().writer:
        return
    if further.get("dry_run"):
        terminal.print(found)
        return
    kept.on_start()  # which may have changed if nothing was left to train
    loaded = load_reports([folder])
    if loaded.comparison is not None:
        terminal.print(printed_table(loaded.comparison))
        terminal.print(claim(loaded.comparison))
    terminal.print(f"report: {write_report(loaded, folder)}")
    terminal.print(f"next: tepui report {folder} --open")
