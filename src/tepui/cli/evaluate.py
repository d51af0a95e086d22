"""``tepui evaluate``: measure a trained ensemble on clean and other data."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tepui.cli.values import (
    Data,
    DataSets,
    Extractor,
    Functions,
    Models,
    Settings,
    functions_named,
)
from tepui.core.checks import require

if TYPE_CHECKING:
    from tepui.evaluation import Evaluation
    from tepui.evaluation.examination import Examination


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

    Evaluations of one ensemble add up: data sets that are not asked for stay as they
    were measured, and new metrics come from stored logits. After tepui calibrate, the
    same command measures again what it asks for. Under torchrun, processes share the
    batches, and detectors are left out.

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
        metrics: Metrics of your own, functions of logits and labels, by path, such as
            mypackage.my_metric. They can come later too: stored logits are enough.
        out: Folder of the ensemble that is made of weights, and of its evaluation; the
            next free runs/evaluate-NNN by default. A run keeps its own evaluation.
        overwrite: Measure again what was measured before; what is not asked for stays.
        set: Anything else, such as batch_size=32; tepui settings --of evaluate lists
            it.
    """
    from tepui.cli import folders
    from tepui.cli.asked import Asked, Keeping
    from tepui.cli.console import console
    from tepui.cli.further import OfEvaluate, read_settings
    from tepui.cli.members import is_saved, opened
    from tepui.core.replacing import check_writable
    from tepui.data.preparation import preparation_of
    from tepui.report import printed_table
    from tepui.report.loading import load_reports
    from tepui.studies.gallery import FILE as GALLERY
    from tepui.studies.gallery import write_gallery
    from tepui.training import LocalExchange, exchange_here

    further = vars(OfEvaluate(**read_settings("evaluate", set)))
    functions = functions_named("--metrics", metrics)
    exchange, terminal = exchange_here(), console()
    trained = is_saved(run)
    if trained:
        own = "be left out for a run, which is evaluated in its own folder"
        require(out is None, "--out", own, out)
    folder = run[0] if trained else folders.folder_for("evaluate", out, resume=False)
    source = opened(run, model, extractor, lambda run: run.tested(data), folder)
    lost = "be another folder than a run's, whose weights would be lost"
    require(trained or not source.config, "--out", lost, str(folder))
    check_writable(folder)
    exchange.wait()  # from now on the file is ours
    asked = source.examination(
        data,
        shifted=shifted,
        ood=ood,
        corruptions=corruptions,
        copies=copies,
        metrics=functions,
        overwrite=overwrite,
        exchange=None if isinstance(exchange, LocalExchange) else exchange,
        **further,
    )
    before, whole = asked.before
    if not whole:
        told = corruptions or (shifted and "none")
        folders.say_of_shifts(asked.test, asked.shifts, told or None)
        if not trained:
            source.ensemble.preparation = preparation_of(asked.test)
            if exchange.writer:
                source.ensemble.save(folder, overwrite=overwrite)
                if data is not None:
                    Keeping(folder, Asked("evaluate", {"data": data})).keep()
        found = asked.evaluate()
        if exchange.writer:
            if further["logits_in"] == "none":
                (folder / GALLERY).unlink(missing_ok=True)
            else:
                unseen = before["ood"] if before else ()
                kept = [name for name in unseen if name not in asked.names]
                write_gallery(folder, asked.test, asked.sets, kept)
            terminal.print("\n".join(_said(asked, found)))
    elif exchange.writer and before is not None:
        asked.write(before)  # with further metrics
        terminal.print(printed_table(load_reports([folder]).groups[0].comparison))
        scores = source.evaluations.items()
        for name in functions:
            values = [f"{of} {found[name]}" for of, found in scores if name in found]
            terminal.print(f"{name}: {', '.join(values)}")
        terminal.print("this was measured before: --overwrite measures it again")
    if exchange.writer:
        terminal.print(f"next: tepui report {folder} --open")


def _said(asked: "Examination", found: "Evaluation") -> Iterator[str]:
    """Yield an evaluation in words, and what stays beside it."""
    from tepui.core.storage import read_document
    from tepui.evaluation.adding import FITTED_ON_TEST, sets_in
    from tepui.evaluation.examination import EVALUATION, EVALUATION_KIND
    from tepui.report.applied import of_fitted_samples

    file = asked.folder / EVALUATION
    document = read_document(file, EVALUATION_KIND)
    what = "classes" if found.task.chooses else "outputs"
    yield f"{found.classes} {what}, {asked.folder}: {found}"
    if document.get("applied", {}).get(FITTED_ON_TEST):
        yield of_fitted_samples("the ensemble")
    said = f"written to {file}"
    if others := [name for name in sets_in(document) if name not in asked.names]:
        said += f", beside {', '.join(others)} from before"
        said += ", without what tepui calibrate changed" if asked.renews else ""
    yield said
