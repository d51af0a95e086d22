"""``tepui calibrate``: what held-out data say of a trained ensemble, kept with it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn
from torch.utils.data import Dataset

from tepui.cli.calibration_gain import doubt_in_words, gain_in_words
from tepui.cli.console import console
from tepui.cli.datasets import (
    Data,
    data_for,
    learned_part,
    place_of,
    run_part,
    tested_part,
)
from tepui.cli.members import check_places, named_ensemble
from tepui.cli.remembered import options_again
from tepui.cli.validation import held_out_part
from tepui.core.checks import require
from tepui.core.counted import counted
from tepui.core.replacing import check_writable
from tepui.core.storage import read_document, write_document
from tepui.core.task import CLASSIFICATION
from tepui.data import split
from tepui.data.fingerprint import fingerprint
from tepui.data.loading import length
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.feature_detectors import FeatureDetectors
from tepui.evaluation.adding import calibrated_since, without_applied
from tepui.evaluation.ensemble_digest import calibration_digest
from tepui.studies.calibration_gain import gain_of
from tepui.studies.trained import EVALUATION, EVALUATION_KIND
from tepui.training.prepare import to_device

EXAMPLE = "tepui calibrate runs/sam --coverage 0.9 --detectors"
PROBABILITIES = (None, "classification", "multi_label")
DROPPED = (
    "the sets or intervals of before are dropped, since they belong to other "
    "probabilities; --coverage makes new ones"
)
UNCALIBRATED = (
    "the calibration of before is dropped, since --method none leaves probabilities as "
    "members give them"
)

ON_TEST = (
    "scores on the test part are from now on of the samples that this was fitted on, "
    "and say nothing of new ones"
)


def calibrate(
    run: Path,
    data: Data | None = None,
    model: Callable[[], nn.Module] | None = None,
    models: list[str] | None = None,
    extractor: str | None = None,
    held_out: Literal["validation", "test"] = "validation",
    method: Literal["temperature", "vector", "isotonic", "none"] | None = None,
    coverage: float | None = None,
    score: Literal["threshold", "aps", "raps", "residual", "normalized", "quantile"]
    | None = None,
    detectors: bool = False,
    rule: Literal["probability", "logit"] = "probability",
    batch_size: int = 256,
    device: str | None = None,
    workers: int = 0,
    remove: bool = False,
) -> None:
    """Make a trained ensemble's answers mean what they say, by data it has not seen.

    What is learned is saved with the ensemble, in the place of what was there: tepui
    predict, export and evaluate use it. What the data score is saved too, so that tepui
    predict says which rows look unlike them.

    Args:
        run: The folder of a run, or of a saved ensemble.
        data: The data set of the run, which remembers it; required for other folders.
        model: The members' architecture, needed only for models tepui does not know.
        models: One architecture per member instead, where they differ.
        extractor: What made the extractor that members share, needed only where it is
            your own: as --extractor of tepui train named it.
        held_out: Which data members have not seen: what the run was validated on
            (tepui train --validation), or the test part, which then
            tests nothing any more.
        method: How probabilities are calibrated; temperature by default, none (with
            --coverage or --detectors) to leave them as members give them. Numbers have
            no probabilities.
        coverage: Make conformal sets of classes, or intervals of numbers, that hold the
            truth this often. One half of the data is for them, the other for
            probabilities.
        score: Of sets threshold (the default), aps or raps; of intervals residual,
            normalized or quantile, by default what the task has.
        detectors: Fit detectors of unfamiliar features too, on what the run was trained
            on; tepui predict then knows unfamiliar rows by them too.
        rule: How members are combined; it is the one to predict with.
        batch_size: Samples that go through a member at once.
        device: Where to compute; a GPU if there is one.
        workers: Processes that load data not held in tensors.
        remove: Take back what was learned: calibration, sets or intervals, detectors,
            and the calibrated scores of the run's evaluation.
    """
    _check_options(method, coverage, score, detectors, remove)
    check_places([run])
    check_writable(run)
    own = model is not None or models is not None or extractor is not None
    if remove and not own:  # models of one's own may be fitted to the data
        _take_back(run, named_ensemble([run], None, None, None))
        return
    named = data_for(data, run)
    seen = run_part(named, run, train=held_out == "validation" or detectors)
    ensemble = named_ensemble([run], model, models, seen, extractor)
    to_device(ensemble, torch.device(place_of(device)))
    if remove:
        _take_back(run, ensemble)
        return
    if detectors:
        _check_classes(ensemble, run, held_out)
    chosen = _method(ensemble, method, coverage)
    how: dict[str, Any] = {"batch_size": batch_size, "workers": workers}
    gained = _dropped(ensemble, chosen, coverage)
    ensemble.calibration = None
    if held_out == "validation":
        unseen = held_out_part(named, run, ensemble.extractor)
    else:
        unseen = tested_part(named, run)
    whole = held = for_sets = _in_form_of(ensemble, unseen)
    said: list[str] = []
    made = {"coverage": coverage, "score": score, "rule": rule, "held_out": held_out}
    without = _without(made, detectors=detectors or ensemble.detectors is not None)
    worse = False
    if chosen is not None:
        if coverage is not None:
            held, for_sets = split(held, 0.5, seed=0)
        fitted = ensemble.calibrate(held, chosen, rule=rule, **how)
        said.append(f"{chosen} calibration on {_count(held)}")
        gain = gain_of(ensemble, held, rule, how)
        worse = gain.effect == "hurts"
        gained += [gain_in_words(gain, fitted), doubt_in_words(gain, run, without)]
    if coverage is not None:
        ensemble.conformal(for_sets, coverage, score, rule=rule, **how)
        said.append(f"coverage {coverage:g} on {_count(for_sets)}")
    if detectors:
        training = learned_part(named, run)
        learned = FeatureDetectors.fit(ensemble, training, held_out=whole, **how)
        ensemble.detectors = learned
        said.append(f"detectors of features on {_count(training)}")
    if chosen is not None or coverage is not None:
        ensemble.calibrated_on = fingerprint(unseen)  # all of it, where it was divided
        gained += [ON_TEST] if held_out == "test" else []
    ensemble.save(run, overwrite=True)
    console().print(f"{', '.join(said)}; saved in {run}")
    for line in filter(None, gained):
        console().print(line)
    outdated = _mark_outdated(run / EVALUATION, ensemble)
    tested = data if outdated else None  # what is predicted are files
    again = options_again(run, tested, model, models, extractor)
    then = f"evaluate {run}" if outdated else f"predict {run} FILES"
    if worse:
        again = options_again(run, data, model, models, extractor)
        then = f"calibrate {run} {without}"
    console().print(f"next: tepui {then}{again}", markup=False)


def _without(made: Mapping[str, Any], *, detectors: bool) -> str:
    """Return the options that make all but a calibration again, or take all back.

    Sets belong to the probabilities that they were made of, and are made anew.

    Example:
        >>> made = {"coverage": 0.9, "score": None, "rule": "logit"}
        >>> _without(made, detectors=True)
        '--method none --coverage 0.9 --rule logit --detectors'
        >>> _without({"coverage": None, "rule": "logit"}, detectors=False)
        '--remove'
    """
    if made["coverage"] is None and not detectors:
        return "--remove"
    usual = (None, "probability", "validation")
    given = {name: value for name, value in made.items() if value not in usual}
    words = [f"--{name.replace('_', '-')} {value}" for name, value in given.items()]
    return " ".join(["--method none", *words, *(["--detectors"] if detectors else [])])


def _mark_outdated(file: Path, ensemble: Ensemble) -> bool:
    """Let an evaluation say that what an ensemble gives has changed; whether it has."""
    document = read_document(file, EVALUATION_KIND) if file.exists() else {}
    if "of" not in document:  # those of a comparison are not made again by evaluate
        return False
    changed: bool = document["of"].get("calibration") != calibration_digest(ensemble)
    write_document(file, EVALUATION_KIND, calibrated_since(document, changed))
    return changed


def _dropped(
    ensemble: Ensemble, method: str | None, coverage: float | None
) -> list[str]:
    """Return what of an earlier calibration nothing takes the place of, in words."""
    uncalibrated = ensemble.calibration is not None and method is None
    without_sets = ensemble.conformity is not None and coverage is None
    said = [UNCALIBRATED] if uncalibrated else []
    return [*said, DROPPED] if without_sets else said


def _check_options(
    method: str | None,
    coverage: float | None,
    score: str | None,
    detectors: bool,
    remove: bool,
) -> None:
    """Refuse options that say nothing together."""
    if remove:
        given = {"--method": method, "--coverage": coverage, "--detectors": detectors}
        wanted = [option for option, value in given.items() if value]
        alone = "stand alone, since it takes back what other options learn"
        require(not wanted, "--remove", alone, " ".join(wanted))
    learns = method != "none" or coverage is not None or detectors
    rule = (
        "go with --coverage or --detectors if it is none, since nothing is learned "
        "else (--remove takes back what was learned)"
    )
    require(learns, "--method", rule, method)
    rule = "go with --coverage"
    require(score is None or coverage is not None, "--score", rule, score)
    if coverage is not None:
        share = "lie between 0 and 1, such as 0.9 for 90 %"
        require(0 < coverage < 1, "--coverage", share, coverage)


def _take_back(run: Path, ensemble: Ensemble) -> None:
    """Save an ensemble as it was trained, without what held-out data said."""
    kept = {
        "calibration": ensemble.calibration is not None,
        "conformal sets or intervals": ensemble.conformity is not None,
        "detectors": ensemble.detectors is not None,
    }
    _take_back_scores(run / EVALUATION)
    ensemble.calibration = ensemble.conformity = ensemble.detectors = None
    ensemble.save(run, overwrite=True)
    removed = ", ".join(name for name, there in kept.items() if there)
    console().print(f"removed from {run}: {removed or 'nothing, as nothing was there'}")


def _take_back_scores(file: Path) -> None:
    """Leave of an evaluation what the ensemble gives as it was trained."""
    if file.exists():
        document = read_document(file, EVALUATION_KIND)
        write_document(file, EVALUATION_KIND, without_applied(document))


def _method(ensemble: Ensemble, method: str | None, coverage: float | None) -> Any:
    """Return how probabilities are calibrated, None if not at all."""
    task = ensemble.task
    has_probabilities = (None if task is None else task.name) in PROBABILITIES
    if has_probabilities:
        return None if method == "none" else method or "temperature"
    rule = f"be left out for the task {str(task)!r}, which has no probabilities"
    require(method in (None, "none"), "--method", rule, method)
    rule = f"be given for the task {str(task)!r}, to make intervals"
    require(coverage is not None, "--coverage", rule, coverage)
    return None


def _check_classes(ensemble: Ensemble, run: Path, held_out: str) -> None:
    """Refuse detectors for what has no classes, with what to type instead."""
    task = ensemble.task
    if task in (None, CLASSIFICATION):
        return
    coverage = "" if task.name in PROBABILITIES else " --coverage 0.9"
    asked = " --held-out test" if held_out == "test" else ""
    raise ValueError(
        f"--detectors must be left out for the task {str(task)!r}, since detectors "
        "learn what classes look like; by how far members disagree tepui predict knows "
        f"unfamiliar rows too, after: tepui calibrate {run}{coverage}{asked}"
    )


def _in_form_of(ensemble: Ensemble, dataset: Dataset[Any]) -> Dataset[Any]:
    """Return images in the form of those that the ensemble learned from."""
    known = ensemble.preparation
    return dataset if known is None else known.dataset(dataset)


def _count(dataset: Dataset[Any]) -> str:
    return counted(length(dataset), "sample")
