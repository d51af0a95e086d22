"""What a calibration gained, and whether the samples suffice to know."""

import warnings
from dataclasses import dataclass
from typing import Any, Literal

from torch.utils.data import Dataset

from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.meaning import held_out
from tepui.evaluation.applied import AppliedScores, scores_with
from tepui.evaluation.cross_fitting import loss_changes
from tepui.metrics import Rule
from tepui.studies.statistics import Interval, mean_interval

UNSEEN = 5e-5  # what four digits of a loss do not show

Effect = Literal["helps", "hurts", "nothing", "unknown"]


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

    @property
    def effect(self) -> Effect:
        """Whether it helps.

        It does where the 95 % interval of the change of NLL lies below zero, on samples
        that it was not fitted on.
        """
        low, high = self.change.low, self.change.high
        if max(abs(low), abs(high)) < UNSEEN:
            return "nothing"
        if low > 0:
            return "hurts"
        return "helps" if high < 0 else "unknown"


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
