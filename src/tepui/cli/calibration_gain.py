"""What a calibration gained, and whether the samples suffice to know, in words."""

from pathlib import Path

from tepui.core.counted import counted
from tepui.metrics import Calibration, TemperatureScaling
from tepui.studies.calibration_gain import Gain


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


def doubt_in_words(gain: Gain, run: Path, without: str) -> str:
    """Return why not to trust a calibration, and what to do; empty if nothing is.

    ECE over few samples is rough, and a rise is only told.

    Args:
        gain: What the calibration gained.
        run: The folder of the run.
        without: The options of tepui calibrate that drop it alone.
    """
    change, ece = gain.change, (gain.before.ece, gain.after.ece)
    rose = f"{ece[1]:.4f}" > f"{ece[0]:.4f}"
    samples = counted(gain.samples, "sample")
    ends = f"95 % interval {change.low:+.4f} to {change.high:+.4f}"
    unseen = f"NLL of samples not fitted on changes by {change.mean:+.4f}, {ends}"
    remedy = (
        "hold out more samples (tepui train --validation), or drop it: tepui calibrate "
        f"{run} {without}"
    )
    if gain.effect == "nothing":
        return f"by {samples} probabilities are right as they are: nothing changes"
    if gain.effect == "hurts":
        return f"calibration makes probabilities worse ({unseen}); {remedy}"
    if gain.effect == "unknown":
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
