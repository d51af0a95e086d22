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
    functions_named,
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

    Evaluations of one ensemble add up: data sets that are not asked for stay as they
    were measured, and new metrics come from stored logits. After tepui calibrate, the
    same command measures again what it asks for. Under torchrun, processes share the
    batches, and detectors of features are left out.

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
    from torch import device

    from tepui.cli import datasets, evaluations
    from tepui.cli.asked import Asked, Keeping
    from tepui.cli.console import console
    from tepui.cli.further import OfEvaluate, read_settings
    from tepui.cli.members import check_places, is_saved, named_ensemble
    from tepui.core.replacing import check_writable
    from tepui.core.storage import read_document, write_document
    from tepui.data.preparation import preparation_of
    from tepui.evaluation.adding import is_on, without_applied
    from tepui.studies.trained import EVALUATION, EVALUATION_KIND
    from tepui.training import LocalExchange, exchange_here
    from tepui.training.prepare import to_device
    from tepui.training.run_folder import RunFolder

    further = OfEvaluate(**read_settings("evaluate", set))
    exchange, terminal = exchange_here(), console()
    check_places(run)
    trained, alone = is_saved(run), isinstance(exchange, LocalExchange)
    folder = evaluations.folder_of(run, trained, out)
    either = "be left out with --copies"
    require(corruptions is None or copies is None, "--corruptions", either, corruptions)
    file = folder / EVALUATION
    before = read_document(file, EVALUATION_KIND) if file.exists() else None
    check_writable(folder)
    exchange.wait()  # from now on the file is ours
    functions = functions_named("--metrics", metrics)
    known = before.get("metrics", ()) if before and not overwrite else functions
    new = {name: f for name, f in functions.items() if name not in known}
    made_by = None if data is None else data.read()
    test = datasets.tested_data(made_by, folder)
    more = shifted or copies or new or (before and ood)
    strength = corruptions or ("none" if more else None)
    copied = datasets.corrupted_copies(test, strength, copies, made_by)
    learned = datasets.learned_from(folder)
    shifts = datasets.shifts_of(test, copied, shifted, learned)
    sets = datasets.unfamiliar(ood, test) or {}
    ensemble = named_ensemble(run, model, test, extractor)
    to_device(ensemble, device(datasets.place_of(further.device)))
    detectors = ensemble.detectors if alone else None
    of = {
        **evaluations.digests(ensemble),
        "classes": further.classes,
        "metrics": [*functions],
        "detectors": detectors is not None,
        "precision": further.precision or RunFolder(folder).exam_precision(),
        "rule": further.rule,
    }
    asked = evaluations.Examination(folder, ensemble, test, shifts, sets, of)
    changed = asked.changes(before)
    if before and not overwrite:
        if new and changed - evaluations.CALIBRATED == {"metrics"}:
            before = asked.with_metrics(before, new)
            if changed == {"metrics"} and is_on(before, asked.about, asked.names):
                if exchange.writer:
                    write_document(file, EVALUATION_KIND, before)
                    said = evaluations.values_in_words(before, new)
                    terminal.print("\n".join([*said, f"written to {file}"]))
                return
            changed = asked.changes(before)
        asked.check_free(before, changed)
    if before and changed:
        kept = changed <= evaluations.CALIBRATED
        before = without_applied(before) if kept else None
    if not trained:
        ensemble.preparation = preparation_of(test)
        if exchange.writer:
            ensemble.save(folder, overwrite=overwrite)
            if data is not None:
                Keeping(folder, Asked("evaluate", {"data": data})).keep()
    evaluation = asked.evaluated(functions, detectors, further, exchange)
    if exchange.writer:
        for line in asked.keep(evaluation, before, changed, further.logits_in):
            terminal.print(line)
        terminal.print(f"next: tepui report {folder} --open")
