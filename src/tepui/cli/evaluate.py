"""``tepui evaluate``: measure a trained ensemble on clean and other data."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

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
    from torch.utils.data import Dataset

    from tepui.ensembles.ensemble import Ensemble

# What tepui calibrate changes of what an evaluation is of.
CALIBRATED = {"calibration", "detectors"}
EXAMPLES = (
    "tepui evaluate runs/sam --corruptions imagenet --ood noise=UniformNoise",
    "tepui evaluate runs/sam --shifted 'sketch=ImageFolder(path=sketches)'",
    "tepui evaluate a.pt b.pt --data CIFAR10 --model ResNet18 --copies CIFAR10C",
)


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
    from dataclasses import replace

    import torch

    from tepui.cli.added_metrics import metric_table, new_metrics, with_metrics
    from tepui.cli.asked import Asked, Keeping
    from tepui.cli.console import console
    from tepui.cli.datasets import (
        corrupted_copies,
        corrupted_images,
        corruptions_for,
        natural_shifts,
        place_of,
        unfamiliar,
    )
    from tepui.cli.further import OfEvaluate, read_settings
    from tepui.cli.members import check_places, is_saved, named_ensemble
    from tepui.cli.score_tables import shown
    from tepui.cli.tested import check_unseen, learned_from, tested_data
    from tepui.core.replacing import check_writable
    from tepui.core.storage import read_document, write_document
    from tepui.data.identity import fingerprint, same_data
    from tepui.data.preparation import preparation_of
    from tepui.data.shifts import Shifts
    from tepui.evaluation.adding import (
        COPIES,
        added,
        fitted_on_test,
        is_on,
        without_applied,
    )
    from tepui.evaluation.evaluate import evaluate as evaluate_ensemble
    from tepui.evaluation.logit_identity import told_apart_by
    from tepui.report.applied import of_fitted_samples
    from tepui.studies.given import tested_on
    from tepui.studies.trained import EVALUATION, EVALUATION_KIND
    from tepui.training import LocalExchange, exchange_here
    from tepui.training.prepare import to_device
    from tepui.training.run_folder import RunFolder

    further = OfEvaluate(**read_settings("evaluate", set))
    rule, classes = further.rule, further.classes
    exchange, terminal = exchange_here(), console()
    alone = isinstance(exchange, LocalExchange)
    check_places(run)
    trained = is_saved(run)
    folder = _folder(run, trained, out)
    either = "be left out with --copies"
    require(corruptions is None or copies is None, "--corruptions", either, corruptions)
    file = folder / EVALUATION
    before = read_document(file, EVALUATION_KIND) if file.exists() else None
    check_writable(folder)
    exchange.wait()  # from now on the file is ours
    functions = functions_named("--metrics", metrics)
    natural = {name: text.read() for name, text in (shifted or {}).items()}
    check_unseen(natural, learned_from(folder))
    made_by = None if data is None else data.read()
    test, extent = tested_data(made_by, folder)
    new = {} if overwrite else new_metrics(before, functions)
    more = bool(natural or new or copies) or (before is not None and bool(ood))
    strength = corruptions_for(test, corruptions or ("none" if more else None))
    shifts = Shifts({}, natural_shifts(natural, test))
    if copies is not None:
        shifts = replace(shifts, copies=corrupted_copies(copies, test, made_by))
    elif strength != "none":
        shifts = replace(shifts, copies=corrupted_images(test, strength))
    sets = unfamiliar({name: text.read() for name, text in (ood or {}).items()}, test)
    asked = [*([COPIES] if shifts.copies else []), *shifts.natural, *(sets or {})]
    ensemble = named_ensemble(run, model, test, extractor)
    to_device(ensemble, torch.device(place_of(further.device)))
    learned = ensemble.detectors if alone else None
    computed_in = further.precision or RunFolder(folder).exam_precision()
    of = {
        **_digests(ensemble),
        "classes": classes,
        "metrics": [*functions],
        "detectors": learned is not None,
        "precision": computed_in,
        "rule": rule,
    }
    about = tested_on(test, shifts, sets)
    changed = _changed(before, of, test)
    if before is not None and new and changed - CALIBRATED == {"metrics"}:
        logits_of = told_apart_by(ensemble, test, classes, rule)
        before = with_metrics(before, folder, new, logits_of)
        if changed == {"metrics"} and is_on(before, about, asked):
            if exchange.writer:
                write_document(file, EVALUATION_KIND, before)
                terminal.print(metric_table(before, [*new], f"added, {folder}"))
                terminal.print(f"written to {file}, from stored logits")
                terminal.print(f"next: tepui report {folder} --open")
            return
        changed = _changed(before, of, test)
    if before is not None and not overwrite:
        _check_free(file, before, changed, asked)
    if before is not None and changed:
        before = without_applied(before) if changed <= CALIBRATED else None
    if not trained:
        ensemble.preparation = preparation_of(test)
        if exchange.writer:
            ensemble.save(folder, overwrite=overwrite)
            if data is not None:
                Keeping(folder, Asked("evaluate", {"data": data})).keep()
    evaluation = evaluate_ensemble(
        ensemble,
        test,
        shifted=shifts,
        ood=sets,
        detectors=learned,
        classes=classes,
        metrics=functions,
        rule=rule,
        batch_size=further.batch_size,
        workers=further.workers,
        precision=computed_in,
        out=folder,
        overwrite=True,
        logits_in=further.logits_in,
        exchange=None if alone else exchange,
    )
    if not exchange.writer:
        return
    kept = [] if before is None else [n for n in before["ood"] if n not in asked]
    _write_for_report(folder, ensemble, test, sets or {}, kept, further.logits_in)
    seen = evaluation.applied is not None and same_data(
        ensemble.calibrated_on, fingerprint(test)
    )
    found = evaluation.document()
    found = fitted_on_test(found) if seen else found
    document = {"about": about, "of": of, **found}
    if before is not None:
        document = added(before, document)
    write_document(file, EVALUATION_KIND, document)
    for each in shown(evaluation, str(folder)):
        terminal.print(each)
    known = preparation_of(test)
    if known is not None and known.units is not None:
        (unit,) = known.units.std
        own = f"1 is {unit:.4g} of the table's own unit"
        terminal.print(f"numbers to predict are standardized: {own}")
    if seen:
        terminal.print(of_fitted_samples("the ensemble"))
    terminal.print(extent)
    terminal.print(f"written to {file}{_beside(document, asked, changed)}")
    terminal.print(f"next: tepui report {folder} --open")


def _folder(run: Sequence[Path], trained: bool, out: Path | None) -> Path:
    """Return where an evaluation goes: to its run's own folder, or to one of no run."""
    from tepui.cli.folders import folder_for
    from tepui.training.run_folder import RunFolder

    if trained:
        own = "be left out for a run, which is evaluated in its own folder"
        require(out is None, "--out", own, out)
        return run[0]
    folder = folder_for("evaluate", out, resume=False)
    replaced = "be another folder than a run's, whose weights would be lost"
    require(not RunFolder(folder).started, "--out", replaced, str(folder))
    return folder


def _write_for_report(
    folder: Path,
    ensemble: "Ensemble",
    test: "Dataset[Any]",
    sets: Mapping[str, "Dataset[Any]"],
    kept: Sequence[str],
    logits_in: str,
) -> None:
    """Write what a report shows beside scores: samples, and a prediction's cost."""
    from tepui.core.storage import write_document
    from tepui.evaluation.cost import prediction_cost
    from tepui.studies.gallery import FILE, write_gallery
    from tepui.studies.trained import COST, COST_KIND

    if logits_in == "none":
        (folder / FILE).unlink(missing_ok=True)
    else:
        write_gallery(folder, test, sets, kept)
    cost = prediction_cost(ensemble, test).document()
    write_document(folder / COST, COST_KIND, cost)


def _beside(
    document: Mapping[str, Any], asked: Sequence[str], changed: set[str]
) -> str:
    """Return what an evaluation holds from before, in words."""
    from tepui.evaluation.adding import sets_in

    others = ", ".join(name for name in sets_in(document) if name not in asked)
    said = f", beside {others} from before" if others else ""
    if not others or not changed:
        return said
    return (
        f"{said}. tepui calibrate has changed the run since then: of {others} only the "
        "scores without calibration are kept; evaluate on them again (--overwrite) for "
        "those with it"
    )


def _digests(ensemble: "Ensemble") -> dict[str, Any]:
    """Return what tells weights apart, and beside them what is done to outputs."""
    from tepui.evaluation.ensemble_digest import calibration_digest
    from tepui.modules.state import weights_digest

    calibrated = calibration_digest(ensemble)
    known = {} if calibrated is None else {"calibration": calibrated}
    return {"ensemble": weights_digest(ensemble), **known}


def _changed(
    before: Mapping[str, Any] | None, of: Mapping[str, Any], test: "Dataset[Any]"
) -> set[str]:
    """Return in what an earlier evaluation differs from the one that is asked for."""
    from tepui.core.agreement import differences
    from tepui.data.identity import data_identity

    if before is None:
        return set()
    known = {**before.get("of", {}), "test": before.get("about", {}).get("test")}
    asked = json.loads(json.dumps({**of, "test": data_identity(test)}))
    return {name.partition(".")[0] for name in differences(known, asked)}


def _check_free(
    file: Path, before: Mapping[str, Any], changed: set[str], asked: Sequence[str]
) -> None:
    """Raise if an earlier evaluation has what is asked for, or does not go with it."""
    from tepui.evaluation.adding import sets_in

    if changed and changed <= CALIBRATED:
        return
    names = ", ".join("test data" if n == "test" else n for n in sorted(changed))
    again = [name for name in sets_in(before) if name in asked]
    if "of" not in before:
        why = "is that of a comparison, to which tepui compare --resume adds"
    elif changed == {"metrics"}:
        why = f"has metrics of yours ({', '.join(before['metrics'])}): name them too"
    elif changed:
        why = f"differs in {names}; to keep it, evaluate a copy of its folder"
    elif again or not asked:
        why = f"is on {', '.join(again or sets_in(before) or ['clean data'])}"
    else:
        return
    replaced = "measure again what is asked for" if not changed else "replace all of it"
    raise FileExistsError(f"{file} exists and {why}; pass --overwrite to {replaced}")
