"""``tepui evaluate``: measure a trained ensemble on clean and other data."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, Literal

import torch
from torch import nn
from torch.utils.data import Dataset

from tepui.cli.added_metrics import metric_table, new_metrics, with_metrics
from tepui.cli.console import console
from tepui.cli.datasets import (
    Data,
    corrupted_copies,
    corrupted_images,
    corruptions_for,
    data_for,
    natural_shifts,
    place_of,
    unfamiliar,
)
from tepui.cli.folders import folder_for
from tepui.cli.members import check_places, is_saved, named_ensemble
from tepui.cli.own_functions import own_functions
from tepui.cli.remembered import remember
from tepui.cli.score_tables import (
    class_tables,
    detection_table,
    part_tables,
    score_table,
    selective_sentence,
    shift_sentence,
)
from tepui.cli.tested import check_unseen, learned_from, tested_data
from tepui.core.agreement import differences
from tepui.core.checks import require
from tepui.core.precision import Precision
from tepui.core.replacing import check_writable
from tepui.core.storage import read_document, write_document
from tepui.core.task import CLASSIFICATION
from tepui.data.arrays import Normalize
from tepui.data.fingerprint import fingerprint, same_data
from tepui.data.preparation import preparation_of
from tepui.data.shifts import Shifts
from tepui.ensembles.digests import weights_digest
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.adding import (
    COPIES,
    added,
    fitted_on_test,
    is_on,
    sets_in,
    without_applied,
)
from tepui.evaluation.cost import prediction_cost
from tepui.evaluation.ensemble_digest import calibration_digest
from tepui.evaluation.evaluate import evaluate as evaluate_ensemble
from tepui.evaluation.logit_identity import told_apart_by
from tepui.evaluation.results import (
    guessing_in_words,
    promise_in_words,
    shifts_worse_than_guessing,
)
from tepui.evaluation.stored_logits import LogitType
from tepui.report.applied import of_fitted_samples
from tepui.studies.gallery import FILE as GALLERY
from tepui.studies.gallery import write_gallery
from tepui.studies.given import tested_on
from tepui.studies.trained import COST, COST_KIND, EVALUATION, EVALUATION_KIND
from tepui.training import LocalExchange, exchange_here
from tepui.training.described import data_identity
from tepui.training.prepare import to_device
from tepui.training.run_folder import RunFolder

# What tepui calibrate changes of what an evaluation is of.
CALIBRATED = {"calibration", "detectors"}
EXAMPLE = "tepui evaluate runs/sam --corruptions imagenet --ood noise=UniformNoise"


def evaluate(
    run: list[Path],
    data: Data | None = None,
    model: Callable[[], nn.Module] | None = None,
    models: list[str] | None = None,
    extractor: str | None = None,
    corruptions: Literal["none", "cifar", "tiny_imagenet", "imagenet"] | None = None,
    shifted: dict[str, Data] | str | None = None,
    classes: Literal["held", "all"] = "held",
    ood: dict[str, Data] | None = None,
    metrics: list[str] | None = None,
    logits_in: LogitType = "float32",
    rule: Literal["probability", "logit", "vote"] = "probability",
    batch_size: int = 1024,
    device: str | None = None,
    precision: Precision | None = None,
    workers: int = 0,
    out: Path | None = None,
    overwrite: bool = False,
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
            that the run has not seen, --data.part all takes all; of another table all
            rows are, by the columns of the run.
        model: The members' architecture, needed only for models tepui does not know.
        models: One architecture per member instead, where they differ: --models
            ResNet18 mypackage.Net mypackage.make_net
        extractor: What made the extractor that members share, needed only where it is
            your own: as --extractor of tepui train named it.
        corruptions: Which benchmark's corruption strengths to use, or none; CIFAR's by
            default at first for images, unless --shifted is given.
        shifted: Corrupted copies to use instead: a folder, written by tepui corrupt or
            published, or the name of a published set, such as: --shifted CIFAR10C. Or
            labeled test data that shifted by themselves, as NAME=DATASET, such as:
            --shifted sketch=ImageFolder:PATH town=FILE.csv
        classes: Classes that members choose from: those in the data set (200 of 1000
            for ImageNetA and ImageNetR), or all.
        ood: Data the ensemble should find unfamiliar, as NAME=DATASET, such as: --ood
            noise=UniformNoise textures=UnlabeledFolder:PATH
        metrics: Your own metrics, functions of logits and labels, by path: --metrics
            mypackage.my_metric. They can come later too: stored logits are enough.
        logits_in: How logits are stored in the folder: float32, float16 for half the
            space, or none. Scores do not depend on it; without logits a report shows no
            images.
        rule: How members are combined.
        batch_size: Samples that go through a member at once.
        device: Where to compute; a GPU if there is one.
        precision: What members compute in on a GPU; tf32 by default, or float32 if the
            run was trained in it.
        workers: Processes that load data not held in tensors.
        out: Folder of the ensemble that is made of weights, and of its evaluation; the
            next free runs/evaluate-NNN by default. Left out for a run, whose own folder
            takes the evaluation.
        overwrite: Measure again what was measured before; what is not asked for stays.
    """
    exchange = exchange_here()
    alone = isinstance(exchange, LocalExchange)
    check_places(run)
    trained = is_saved(run)
    folder = _folder(run, trained, out)
    shifted, natural = _kinds(shifted)
    one_kind = corruptions is None or shifted is None
    require(one_kind, "--corruptions", "be left out with --shifted", corruptions)
    file = folder / EVALUATION
    before = read_document(file, EVALUATION_KIND) if file.exists() else None
    check_writable(folder)
    exchange.wait()  # from now on the file is ours
    functions = own_functions("--metrics", metrics or ())
    check_unseen(natural, learned_from(folder))
    test, extent = tested_data(data, folder)
    new = {} if overwrite else new_metrics(before, functions)
    further = bool(natural) or bool(new) or (before is not None and bool(ood))
    kind = corruptions or ("none" if further or shifted is not None else None)
    copies = _copies(shifted, corruptions_for(test, kind), test, data)
    shifts = Shifts(copies, natural_shifts(natural, test))
    sets = unfamiliar(ood, test)
    asked = [*([COPIES] if copies else []), *shifts.natural, *(sets or {})]
    ensemble = named_ensemble(run, model, models, test, extractor)
    to_device(ensemble, torch.device(place_of(device)))
    learned = ensemble.detectors if alone else None
    computed_in: Precision = precision or RunFolder(folder).exam_precision()
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
                _write_metrics(file, before, [*new])
            return
        changed = _changed(before, of, test)
    if not overwrite:
        _check_free(file, before, changed, asked, trained)
    if before is not None and changed:
        before = without_applied(before) if changed <= CALIBRATED else None
    if not trained:
        ensemble.preparation = preparation_of(test)
        if exchange.writer:
            ensemble.save(folder, overwrite=overwrite)
            remember(folder, data_for(data, folder), None, None)
    evaluation = evaluate_ensemble(
        ensemble,
        test,
        shifted=shifts,
        ood=sets,
        detectors=learned,
        classes=classes,
        metrics=functions,
        rule=rule,
        batch_size=batch_size,
        workers=workers,
        precision=computed_in,
        out=folder,
        overwrite=True,
        logits_in=logits_in,
        exchange=None if alone else exchange,
    )
    if not exchange.writer:
        return
    kept = [] if before is None else [n for n in before["ood"] if n not in asked]
    _write_for_report(folder, ensemble, test, sets or {}, kept, logits_in)
    seen = evaluation.applied is not None and same_data(
        ensemble.calibrated_on, fingerprint(test)
    )
    found = evaluation.document()
    found = fitted_on_test(found) if seen else found
    document = {"about": about, "of": of, **found}
    if before is not None:
        document = added(before, document)
    write_document(file, EVALUATION_KIND, document)
    terminal = console()
    what = "classes" if evaluation.task == CLASSIFICATION else "outputs"
    title = f"{evaluation.classes} {what}, {folder}"
    terminal.print(score_table(evaluation, title))
    for shown in (*part_tables(evaluation), *class_tables(evaluation)):
        terminal.print(shown)
    terminal.print(extent)
    known = preparation_of(test)
    if known is not None and known.units is not None:
        terminal.print(_in_units(known.units))
    if evaluation.ood or evaluation.mistakes:
        terminal.print(detection_table(evaluation))
    sentences = (shift_sentence, selective_sentence, promise_in_words)
    for sentence_of in sentences:
        if said := sentence_of(evaluation):
            terminal.print(said)
    if seen:
        terminal.print(of_fitted_samples("the ensemble"))
    if evaluation.only_guesses:
        terminal.print(guessing_in_words(evaluation))
    for sentence in shifts_worse_than_guessing(evaluation):
        terminal.print(sentence)
    terminal.print(f"written to {file}{_beside(document, asked, changed)}")
    terminal.print(f"next: tepui report {folder} --open")


def _write_metrics(file: Path, document: Mapping[str, Any], names: list[str]) -> None:
    """Write an evaluation to which metrics were added, and show them."""
    write_document(file, EVALUATION_KIND, document)
    terminal = console()
    terminal.print(metric_table(document, names, f"added, {file.parent}"))
    terminal.print(f"written to {file}, from stored logits: nothing was measured again")
    terminal.print(f"next: tepui report {file.parent} --open")


def _in_units(units: Normalize) -> str:
    """Return what standardized numbers are measured in, in words."""
    (one,) = units.std
    return (
        f"numbers to predict are standardized: 1 is {one:.4g} of the table's own unit"
    )


def _folder(run: Sequence[Path], trained: bool, out: Path | None) -> Path:
    """Return where an evaluation goes: to its run's own folder, or to one of no run."""
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
    ensemble: Ensemble,
    test: Dataset[Any],
    sets: Mapping[str, Dataset[Any]],
    kept: Sequence[str],
    logits_in: LogitType,
) -> None:
    """Write what a report shows beside scores: samples, and a prediction's cost."""
    if logits_in == "none":
        (folder / GALLERY).unlink(missing_ok=True)
    else:
        write_gallery(folder, test, sets, kept)
    cost = prediction_cost(ensemble, test).document()
    write_document(folder / COST, COST_KIND, cost)


def _copies(
    shifted: str | None, corruptions: str, test: Dataset[Any], data: Data | None
) -> Mapping[tuple[str, int], Dataset[Any]]:
    """Return corrupted copies: of a folder, made here, or none."""
    if shifted is not None:
        return corrupted_copies(shifted, test, data)
    return {} if corruptions == "none" else corrupted_images(test, corruptions)


def _beside(
    document: Mapping[str, Any], asked: Sequence[str], changed: set[str]
) -> str:
    """Return what an evaluation holds from before, in words."""
    others = ", ".join(name for name in sets_in(document) if name not in asked)
    if not others:
        return ""
    said = f", beside {others} from before"
    if not changed:
        return said
    return (
        f"{said}. tepui calibrate has changed the run since then: of {others} only the "
        "scores without calibration are kept; evaluate on them again (--overwrite) for "
        "those with it"
    )


def _digests(ensemble: Ensemble) -> dict[str, Any]:
    """Return what tells weights apart, and beside them what is done to outputs."""
    calibrated = calibration_digest(ensemble)
    known = {} if calibrated is None else {"calibration": calibrated}
    return {"ensemble": weights_digest(ensemble), **known}


def _changed(
    before: Mapping[str, Any] | None, of: Mapping[str, Any], test: Dataset[Any]
) -> set[str]:
    """Return in what an earlier evaluation differs from the one that is asked for."""
    if before is None:
        return set()
    known = {**before.get("of", {}), "test": before.get("about", {}).get("test")}
    asked = json.loads(json.dumps({**of, "test": data_identity(test)}))
    return {name.partition(".")[0] for name in differences(known, asked)}


def _check_free(
    file: Path,
    before: Mapping[str, Any] | None,
    changed: set[str],
    asked: Sequence[str],
    trained: bool,
) -> None:
    """Raise if an earlier evaluation has what is asked for, or does not go with it."""
    if before is None or (changed and changed <= CALIBRATED):
        return
    if "of" not in before:
        raise FileExistsError(
            f"{file} exists and does not say how it was made, as those of tepui "
            "compare do not; add to a comparison by tepui compare with --resume (and "
            "--ood, --metrics), or pass --overwrite to replace all of it"
        )
    if changed == {"metrics"}:
        known = ", ".join(before["metrics"])
        raise FileExistsError(
            f"{file} exists with metrics of yours ({known}): name them too, by "
            "--metrics, to add data sets, or pass --overwrite to replace all of it"
        )
    if changed:
        names = ", ".join("test data" if n == "test" else n for n in sorted(changed))
        way = _kept(file.parent, changed, trained)
        raise FileExistsError(
            f"{file} exists and differs in {names}; to keep it, {way}"
        )
    again = [name for name in sets_in(before) if name in asked]
    if again or not asked:
        measured = ", ".join(again or sets_in(before) or ["clean data"])
        raise FileExistsError(
            f"{file} exists and is on {measured}; pass --overwrite to measure again "
            "what is asked for"
        )


def _kept(folder: Path, changed: set[str], trained: bool) -> str:
    """Return how to evaluate otherwise without losing an earlier evaluation."""
    if not trained:
        return "choose another folder by --out; --overwrite replaces all of it"
    beside = "; other data are measured beside it by --shifted NAME=DATASET"
    copy = f"cp -r {quote(str(folder))} {quote(f'{folder}-other')}"
    return (
        f"evaluate a copy of the run ({copy}) with --overwrite, which replaces all of "
        f"it{beside if 'test' in changed else ''}"
    )


def _kinds(
    shifted: dict[str, Data] | str | None,
) -> tuple[str | None, dict[str, Data] | None]:
    """Return the place of corrupted copies and natural shifts, one of them at most."""
    return (shifted, None) if isinstance(shifted, str) else (None, shifted)
