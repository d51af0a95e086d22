"""``tepui calibrate``: what held-out data say of a trained ensemble, kept with it."""

from pathlib import Path
from typing import Literal

from tepui.cli.console import console
from tepui.cli.values import Data, Extractor, Models, Settings
from tepui.core.checks import require

HARM = {"hurts": "makes probabilities worse", "unknown": "may not help"}


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
    score: Literal["threshold", "aps", "residual", "normalized", "quantile"]
    | None = None,
    per: Literal["class"] | None = None,
    shift: Data | None = None,
    detectors: bool = False,
    remove: bool = False,
    set: Settings | None = None,
) -> None:
    """Make a trained ensemble's answers mean what they say, by data it has not seen.

    What is learned is saved with the ensemble, in the place of what was there: tepui
    predict, export and evaluate use it. What the data score is saved too, so that tepui
    predict says which rows look unlike them.

    Such as:

        tepui calibrate runs/sam --coverage 0.9 --detectors
        tepui calibrate runs/sam --held-out test --method vector
        tepui calibrate runs/sam --remove

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
        score: Of sets threshold (the default) or aps; of intervals residual,
            normalized or quantile, by default what the task has.
        per: Promise the coverage to each class by itself, not to their average.
        shift: Data like those to come, without labels: weigh the sets' samples by how
            likely they are among these.
        detectors: Fit detectors of unfamiliar features too, on what the run was trained
            on; tepui predict then knows unfamiliar rows by them too.
        remove: Take back what was learned: calibration, sets or intervals, detectors,
            and the calibrated scores of the run's evaluation.
        set: The rule, or how to compute, such as rule=logit; tepui settings --of
            calibrate explains them.
    """
    from tepui.cli.members import opened
    from tepui.cli.settings import OfCalibrate, read_settings
    from tepui.core.replacing import check_writable
    from tepui.core.text import counted
    from tepui.data.loading import length
    from tepui.studies.calibration_gain import gain_of

    further = OfCalibrate(**read_settings("calibrate", set))
    wanted = method or coverage is not None or detectors
    alone = "stand alone, since it takes back what other options learn"
    require(not (remove and wanted), "--remove", alone, remove)
    train = held_out == "validation" or detectors
    source = opened(
        [run], model, extractor, lambda source: source.part(data, train=train)
    )
    terminal = console()
    check_writable(run)
    if remove:
        removed = ", ".join(source.uncalibrate()) or "nothing, as nothing was there"
        terminal.print(f"removed from {run}: {removed}")
        return
    found = source.calibrate(
        data,
        held_out=held_out,
        method=method,
        coverage=coverage,
        score=score,
        per=per,
        shift=shift,
        detectors=detectors,
        **vars(further),
    )
    ensemble = source.ensemble
    said = [f"{it} of before dropped" for it in found.dropped]
    if found.held is not None and ensemble.calibration is not None:
        fitted, count = ensemble.calibration, counted(length(found.held), "sample")
        how = {"batch_size": further.batch_size, "workers": further.workers}
        gain = gain_of(ensemble, found.held, further.rule, how)
        change = f"NLL {gain.before.nll:.4f} → {gain.after.nll:.4f}"
        said.append(f"{fitted.method} calibration on {count}: {change}")
        if gain.effect in ("hurts", "unknown"):
            said.append(f"calibration {HARM[gain.effect]}; --remove takes it back")
    if found.promised is not None:
        count = counted(length(found.promised), "sample")
        said.append(f"{ensemble.conformity} on {count}")
    if found.trained is not None:
        count = counted(length(found.trained), "sample")
        said.append(f"detectors on {count}")
    terminal.print("\n".join([*said, f"saved in {run}"]))
    then = f"evaluate {run}" if found.outdated else f"predict {run} FILES"
    terminal.print(f"next: tepui {then}")
