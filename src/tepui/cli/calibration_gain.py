"""What a calibration gained, and whether the samples suffice to know, in words."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from tepui.cli.console import counted
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.held_out import held_out
from tepui.evaluation.applied import AppliedScores, scores_with
from tepui.evaluation.cross_fitting import loss_changes
from tepui.metrics import Calibration, Rule, TemperatureScaling
from tepui.studies.statistics import Interval, mean_interval


@dataclass(frozen=True)
class Gain:
    """What a calibration did.

    Attributes:
        before: Scores of the samples it was fitted on, without it.
        after: The same with it.
        change: By how much it changes the NLL of samples that it was not fitted on, see
            :mod:`tepui.evaluation.cross_fitting`.
        samples: How many there are.
    """

    before: AppliedScores
    after: AppliedScores
    change: Interval
    samples: int


def gain_of(
    ensemble: Ensemble, held: Dataset[Any], rule: Rule, how: dict[str, Any]
) -> Gain:
    """Return what the calibration of an ensemble did, by its own samples."""
    fitted = ensemble.calibration
    assert fitted is not None, "an ensemble is calibrated first"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # said while it was fitted
        outputs = held_out(ensemble, held, ensemble.task, (), **how)
    before, after = (scores_with(each, outputs, rule) for each in (None, fitted))
    changes = loss_changes(outputs, fitted.method, rule).tolist()
    return Gain(before, after, mean_interval(changes), len(outputs.targets))


def gain_in_words(gain: Gain, calibration: Calibration) -> str:
    """Return the scores before and after."""
    found = ""
    if isinstance(calibration, TemperatureScaling):
        found = f"temperature {float(calibration.divisor):.3g}: "
    before, after = gain.before, gain.after
    return (
        f"{found}NLL {before.nll:.4f} → {after.nll:.4f}, ECE {before.ece:.4f} → "
        f"{after.ece:.4f} on these samples"
    )


UNSEEN = 5e-5  # what four digits of a loss do not show


def doubt_in_words(gain: Gain, run: Path) -> str:
    """Return why not to trust a calibration, and what to do; empty if nothing is.

    It helps where the 95 % interval of the change of NLL lies below zero, on samples
    that it was not fitted on. ECE over few samples is rough, and a rise is only told.
    """
    change, ece = gain.change, (gain.before.ece, gain.after.ece)
    rose = f"{ece[1]:.4f}" > f"{ece[0]:.4f}"
    samples = counted(gain.samples, "sample")
    ends = f"95 % interval {change.low:+.4f} to {change.high:+.4f}"
    unseen = f"NLL of samples not fitted on changes by {change.mean:+.4f}, {ends}"
    remedy = (
        "hold out more samples (tepui train --validation), or take it back, with sets "
        f"and detectors: tepui calibrate {run} --remove"
    )
    if max(abs(change.low), abs(change.high)) < UNSEEN:
        return f"by {samples} probabilities are right as they are: nothing changes"
    if change.low > 0:
        return f"calibration makes probabilities worse ({unseen}); {remedy}"
    if not change.high < 0:
        few = f"{samples} cannot tell whether calibration helps"
        also = ", and ECE got worse on them" if rose else ""
        known = "" if change.count < 2 else f" ({unseen})"
        return f"{few}{known}{also}; {remedy}"
    if rose:
        return (
            f"ECE got worse on these samples though NLL falls ({unseen}); ECE is rough "
            f"on {samples}: see what tepui evaluate {run} says of test "
            "data"
        )
    return ""
