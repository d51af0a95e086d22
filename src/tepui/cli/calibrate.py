"""``tepui calibrate``: what held-out data say of a trained ensemble, kept with it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tepui.cli.console import console
from tepui.cli.values import Data, Extractor, Models, Settings
from tepui.core.checks import require

if TYPE_CHECKING:
    from tepui.ensembles.ensemble import Ensemble
    from tepui.metrics import Calibration
    from tepui.studies.calibration_gain import Gain

EXAMPLES = (
    "tepui calibrate runs/sam --coverage 0.9 --detectors",
    "tepui calibrate runs/sam --held-out test --method vector",
    "tepui calibrate runs/sam --remove",
)


def calibrate(
    run: Path,
    /,
    *,
    data: Data | None = None,
    model: Models | None = None,
    extractor: Extractor | None = None,
    held_out: Literal["validation", "test"] = "validation",
    method: Literal["temperature", "vector", "isotonic", "none"] | None = None,
    coverage: float | None = None,
    score: Literal["threshold", "aps", "raps", "residual", "normalized", "quantile"]
    | None = None,
    detectors: bool = False,
    remove: bool = False,
    set: Settings | None = None,
) -> None:
    """Make a trained ensemble's answers mean what they say, by data it has not seen.

    What is learned is saved with the ensemble, in the place of what was there: tepui
    predict, export and evaluate use it. What the data score is saved too, so that tepui
    predict says which rows look unlike them.

    Args:
        run: The folder of a run, or of a saved ensemble.
        data: The data set of the run, which remembers it; required for other folders.
        model: The members' architecture, or one for each, needed only for models that
            tepui does not know.
        extractor: What made the extractor that members share, needed only if it is
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
        remove: Take back what was learned: calibration, sets or intervals, detectors,
            and the calibrated scores of the run's evaluation.
        set: The rule, or how to compute, such as rule=logit; tepui settings --of
            calibrate explains them.
    """
    import torch

    from tepui.cli import datasets
    from tepui.cli.asked import said_again
    from tepui.cli.further import OfCalibrate, read_settings
    from tepui.cli.members import check_places, named_ensemble
    from tepui.core.counted import counted
    from tepui.core.replacing import check_writable
    from tepui.data import split
    from tepui.data.identity import fingerprint
    from tepui.data.loading import length
    from tepui.ensembles.feature_detectors import FeatureDetectors
    from tepui.studies.calibration_gain import gain_of
    from tepui.studies.trained import EVALUATION
    from tepui.training.prepare import to_device

    further = OfCalibrate(**read_settings("calibrate", set))
    wanted = method or coverage is not None or detectors
    alone = "stand alone, since it takes back what other options learn"
    require(not (remove and wanted), "--remove", alone, remove)
    learns = method != "none" or coverage is not None or detectors
    rule = "go with --coverage or --detectors if it is none (see --remove)"
    require(learns, "--method", rule, method)
    rule = "go with --coverage"
    require(score is None or coverage is not None, "--score", rule, score)
    check_places([run])
    check_writable(run)
    if remove and model is None and extractor is None:
        _take_back(run, named_ensemble([run], None, None))
        return
    named = datasets.data_for(None if data is None else data.read(), run)
    seen = datasets.run_part(named, run, train=held_out == "validation" or detectors)
    ensemble = named_ensemble([run], model, seen, extractor)
    to_device(ensemble, torch.device(datasets.place_of(further.device)))
    if remove:  # models of one's own may be fitted to the data
        _take_back(run, ensemble)
        return
    task = ensemble.task
    chosen: Any = None if method == "none" else method
    if method is None and (task is None or task.calibrations):
        chosen = "temperature"
    rule = f"be given for the task {str(task)!r}, to make intervals"
    require(bool(chosen or coverage or detectors), "--coverage", rule, coverage)
    how: dict[str, Any] = {"batch_size": further.batch_size, "workers": further.workers}
    said = (
        ["calibration of before dropped"] if ensemble.calibration and not chosen else []
    )
    if ensemble.conformity is not None and coverage is None:
        said.append("conformal sets or intervals of before dropped")
    ensemble.calibration = None
    if held_out == "validation":
        unseen = datasets.held_out_part(named, run, ensemble.extractor)
    else:
        unseen = datasets.tested_part(named, run)
    known = ensemble.preparation
    whole = held = for_sets = unseen if known is None else known.dataset(unseen)
    if chosen is not None:
        if coverage is not None:
            held, for_sets = split(held, 0.5, seed=0)
        fitted = ensemble.calibrate(held, chosen, rule=further.rule, **how)
        said.append(f"{chosen} calibration on {counted(length(held), 'sample')}")
        said += _gained(gain_of(ensemble, held, further.rule, how), fitted)
    if coverage is not None:
        ensemble.conformal(for_sets, coverage, score, rule=further.rule, **how)
        said.append(f"coverage {coverage:g} on {counted(length(for_sets), 'sample')}")
    if detectors:
        training = datasets.learned_part(named, run)
        learned = FeatureDetectors.fit(ensemble, training, held_out=whole, **how)
        ensemble.detectors = learned
        said.append(f"detectors of features on {counted(length(training), 'sample')}")
    if chosen is not None or coverage is not None:
        ensemble.calibrated_on = fingerprint(unseen)  # all of it, even if divided
    ensemble.save(run, overwrite=True)
    console().print("\n".join([*said, f"saved in {run}"]))
    outdated = _mark_outdated(run / EVALUATION, ensemble)
    then = f"evaluate {run}" if outdated else f"predict {run} FILES"
    again = said_again(data=data if outdated else None, model=model)
    console().print(f"next: tepui {then}{again}")


def _gained(gain: "Gain", fitted: "Calibration") -> Iterator[str]:
    """Yield the scores before and after, and whether a calibration does good.

    ECE over few samples is rough; what samples that were not fitted on say counts.
    """
    before, after, change = gain.before, gain.after, gain.change
    nll, ece = (
        f"{before.nll:.4f} → {after.nll:.4f}",
        f"{before.ece:.4f} → {after.ece:.4f}",
    )
    divisor = getattr(fitted, "divisor", None)
    found = "" if divisor is None else f"temperature {float(divisor):.3g}: "
    yield f"{found}NLL {nll}, ECE {ece} on these samples"
    ends = f"95 % interval {change.low:+.4f} to {change.high:+.4f}"
    if change.count > 1:
        yield f"NLL of samples not fitted on changes by {change.mean:+.4f}, {ends}"
    if gain.effect in ("hurts", "unknown"):
        worse = (
            "makes probabilities worse" if gain.effect == "hurts" else "may not help"
        )
        yield f"calibration {worse}: hold out more samples, or take it back (--remove)"


def _mark_outdated(file: Path, ensemble: "Ensemble") -> bool:
    """Let an evaluation say that what an ensemble gives has changed; whether it has."""
    from tepui.core.storage import read_document, write_document
    from tepui.evaluation.adding import calibrated_since
    from tepui.evaluation.ensemble_digest import calibration_digest
    from tepui.studies.trained import EVALUATION_KIND

    document = read_document(file, EVALUATION_KIND) if file.exists() else {}
    if "of" not in document:  # those of a comparison are not made again by evaluate
        return False
    changed: bool = document["of"].get("calibration") != calibration_digest(ensemble)
    write_document(file, EVALUATION_KIND, calibrated_since(document, changed))
    return changed


def _take_back(run: Path, ensemble: "Ensemble") -> None:
    """Save an ensemble as it was trained, without what held-out data said."""
    from tepui.core.storage import read_document, write_document
    from tepui.evaluation.adding import without_applied
    from tepui.studies.trained import EVALUATION, EVALUATION_KIND

    kept = {
        "calibration": ensemble.calibration is not None,
        "conformal sets or intervals": ensemble.conformity is not None,
        "detectors": ensemble.detectors is not None,
    }
    file = run / EVALUATION
    if file.exists():
        document = read_document(file, EVALUATION_KIND)
        write_document(file, EVALUATION_KIND, without_applied(document))
    ensemble.calibration = ensemble.conformity = ensemble.detectors = None
    ensemble.save(run, overwrite=True)
    removed = ", ".join(name for name, there in kept.items() if there)
    console().print(f"removed from {run}: {removed or 'nothing, as nothing was there'}")
