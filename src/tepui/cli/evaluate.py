"""``tepui evaluate``: measure a trained ensemble on clean and other data."""

from pathlib import Path
from typing import Literal

from tepui.cli.values import (
    Data,
    DataSets,
    Extractor,
    Functions,
    Models,
    Settings,
    by_name,
)
from tepui.core.checks import require


def evaluate(
    run: list[Path],
    /,
    *,
    data: Data | None = None,
    model: Models | None = None,
    extractor: Extractor | None = None,
    corruptions: Literal["none", "cifar", "tiny_imagenet", "imagenet"] | None = None,
    copies: str | None = None,
    shifted: DataSets | None = None,
    ood: DataSets | None = None,
    metrics: Functions | None = None,
    out: Path | None = None,
    overwrite: bool = False,
    set: Settings | None = None,
) -> None:
    """Measure a trained ensemble on clean, corrupted and unfamiliar data.

    Each data set has a file of its own, in evaluations: those that are not asked for
    stay as they were measured. After tepui calibrate, the same command measures again.
    Under torchrun, processes share the batches, and detectors are left out.

    Such as:

        tepui evaluate runs/sam --corruptions imagenet --ood noise=UniformNoise
        tepui evaluate runs/sam --shifted 'sketch=ImageFolder(path=sketches)'
        tepui evaluate a.pt b.pt --data CIFAR10 --model ResNet18 --copies CIFAR10C

    Args:
        run: The folder of a run, or of a saved ensemble; or weights that another
            program trained, one file or folder per member, as for tepui measure.
        data: The data set, whose test part is used; what the run was trained on by
            default, required for other folders and for weights. Of a folder of images
            that the run has not seen, part=all takes all; of another table all rows
            are, by the columns of the run.
        model: The members' architecture, or one for each, needed only for models that
            tepui does not know, and for weights.
        extractor: What made the extractor that members share, needed only if it is
            your own: as --extractor of tepui train named it.
        corruptions: The benchmark whose corruption strengths to use, or none; CIFAR's
            by default at first for images, unless --copies or --shifted is given.
        copies: Corrupted copies to use instead: a folder, written by tepui corrupt or
            published, or the name of a published set, such as CIFAR10C.
        shifted: Labeled test data that shifted by themselves, as NAME=DATASET, such as
            sketch=ImageFolder(path=sketches).
        ood: Data the ensemble should find unfamiliar, as NAME=DATASET, such as
            noise=UniformNoise.
        metrics: Your functions of logits and labels by path: mypackage.my_metric.
        out: Folder of the ensemble that is made of weights, and of its evaluation; the
            next free runs/evaluate-NNN by default. A run keeps its own evaluation.
        overwrite: Measure again what was measured before; what is not asked for stays,
            unless it is of another ensemble, other data or settings.
        set: Anything else, such as batch_size=32 (tepui settings --of evaluate).
    """
    from tepui.cli import folders
    from tepui.cli.console import console
    from tepui.cli.folders import Keeping
    from tepui.cli.members import is_saved, opened
    from tepui.cli.settings import OfEvaluate, read_settings
    from tepui.core.replacing import check_writable
    from tepui.data.image_files import image_shape
    from tepui.data.preparation import preparation_of
    from tepui.evaluation.evaluations import FOLDER, names_in
    from tepui.training import LocalExchange, exchange_here

    further = vars(OfEvaluate(**read_settings("evaluate", set)))
    exchange, trained = exchange_here(), is_saved(run)
    if trained:
        own = "be left out for a run, which is evaluated in its own folder"
        require(out is None, "--out", own, out)
    folder = run[0] if trained else folders.folder_for("evaluate", out, resume=False)
    source = opened(run, model, extractor, lambda run: run.tested(data), folder)
    lost = "be another folder than a run's, whose weights would be lost"
    require(trained or not source.config, "--out", lost, str(folder))
    check_writable(folder)
    exchange.wait()  # from now on the files are ours
    test = source.tested(data)
    if not trained:
        source.ensemble.preparation = preparation_of(test)
        if exchange.writer:
            source.ensemble.save(folder, overwrite=overwrite)
            if data is not None:
                Keeping(folder, "evaluate", {"data": data}).on_start()
    if not (corruptions or shifted or copies) and image_shape(test) is None:
        folders.say("no corrupted data, since inputs are not images")
    found = source.evaluate(
        data,
        shifted=shifted,
        ood=ood,
        corruptions=corruptions,
        copies=copies,
        metrics=by_name("metrics", [text.read() for text in metrics or ()]),
        overwrite=overwrite,
        exchange=None if isinstance(exchange, LocalExchange) else exchange,
        **further,
    )
    if exchange.writer:
        others = [n for n in names_in(folder) if n not in found.documents()]
        beside = f", beside {', '.join(others)} from before" if others else ""
        what = "classes" if found.task.chooses else "outputs"
        console().print(f"{found.classes} {what}, {folder}: {found}")
        console().print(f"written to {folder / FOLDER}{beside}")
        console().print(f"next: tepui report {folder} --open")
