"""What is read of an ensemble: how it is named, written and judged."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from tepui.report.comparison import Comparison, MethodResult, Trained, scores_on
from tepui.report.wording import opening
from tepui.studies.statistics import Interval, mean_interval

Better = Literal["higher", "lower", ""]  # which side of a measure
Reading = Callable[[Trained], float | None]  # of an ensemble
DATA = {"clean": "clean", "shifted": "corrupted"}
SHARPNESS_SCORE = "sharpness"
ANY = (-math.inf, math.inf)
SHARE = (0.0, 100.0)
SIZE = (0.0, math.inf)


@dataclass(frozen=True)
class Measure:
    """A number of an ensemble; in percent it is shown a hundredfold."""

    score: str  # of the task's scores, a metric of the caller's own, or "sharpness"
    title: str  # heads a column
    name: str  # in sentences and beside pictures
    meaning: str = "a metric of your own"
    percent: bool = False
    better: Better = ""
    digits: int = 3  # after the point, where it stands alone
    limits: tuple[float, float] = ANY  # of what is possible, as it is shown

    @property
    def scale(self) -> float:
        """By how much values are multiplied before they are shown."""
        return 100 if self.percent else 1

    @property
    def unit(self) -> str:
        """The unit of a difference."""
        return "points" if self.percent else ""

    @property
    def coarse(self) -> int:
        """Digits after the point, where an interval stands beside."""
        return 1 if self.percent else self.digits

    @property
    def heading(self) -> str:
        """The column's heading with its unit."""
        return f"{self.title} %" if self.percent else self.title

    def read(self, data: str) -> Reading:
        """Return what reads the measure of an ensemble, on the scale it is shown in."""

        def value(trained: Trained) -> float | None:
            found = scores_on(data, trained.evaluation).get(self.score)
            if self.score == SHARPNESS_SCORE:  # of training data, told with clean ones
                measured = trained.sharpness if data == "clean" else None
                found = None if measured is None else measured["mean"]
            return None if found is None else self.scale * found

        return value

    def of(self, method: MethodResult, data: str) -> Interval:
        """Return the mean over a method's ensembles with its interval."""
        return interval_of(method, self.read(data)).within(*self.limits)


def interval_of(method: MethodResult, read: Reading) -> Interval:
    """Return the mean of a reading over a method's ensembles, with its interval."""
    return mean_interval(map(read, method.ensembles))


def _share(
    score: str,
    title: str,
    name: str,
    meaning: str,
    better: Better = "higher",
    limits: tuple[float, float] = SHARE,
) -> Measure:
    return Measure(score, title, name, meaning, True, better, 2, limits)


def _size(
    score: str, title: str, name: str, meaning: str, better: Better = "lower"
) -> Measure:
    return Measure(score, title, name, meaning, better=better, limits=SIZE)


ACCURACY = _share(
    *("accuracy", "ensemble", "ensemble accuracy"),
    "how often the class with the highest averaged probability is right",
)
OWN_ACCURACY = _share(
    *("individual_accuracy", "individual", "members' accuracy"),
    "mean accuracy of the members on their own",
)
ECE = _share(
    *("ece", "ECE", "calibration error (ECE)"),
    "mean distance between stated confidence and accuracy, 15 bins",
    "lower",
)
RMSE = _size("rmse", "RMSE", "error (RMSE)", "root of the mean squared error")
OWN_RMSE = _size(
    "individual_rmse", "members' RMSE", "members' error (RMSE)", "mean over members"
)
COVERAGE = _share(
    *("interval_coverage", "coverage", "coverage"),
    "share of targets within their interval; best where it is what was promised",
    "",
)
SPREAD = _size("spread", "spread", "spread", "mean deviation over members", "")
SHARPNESS = _size(
    *(SHARPNESS_SCORE, "sharpness", "sharpness"),
    "largest rise of the training loss within an adaptive ball around a member's "
    "weights, mean over members; lower is flatter",
    "",
)
MEASURES = (
    OWN_ACCURACY,
    ACCURACY,
    _share("mean_iou", "mIoU", "mean IoU", "intersection over union of pixels"),
    _share(
        *("mean_average_precision", "mAP", "mean average precision"),
        "average precision of a label, mean over labels",
    ),
    _share(
        *("mean_auroc", "AUROC of labels", "AUROC of labels"),
        "area under the ROC curve, mean over labels; guesses have 50 %",
    ),
    _size(
        *("der", "DER", "diversity (DER)"),
        "disagreement of two members over their error; higher: they err differently",
        "",
    ),
    ECE,
    OWN_RMSE,
    RMSE,
    _size("nll", "NLL", "log loss (NLL)", "negative log likelihood of the truth"),
    _size("crps", "CRPS", "CRPS", "error of a whole predicted distribution"),
    _size(
        *("quantile_loss", "quantile loss", "loss of quantiles"),
        "twice the mean pinball loss, comparable only at equal levels",
    ),
    COVERAGE,
    _size("interval_width", "width", "interval width", "mean width of intervals", ""),
    _share(
        *("quantile_calibration", "quantile error", "quantile error"),
        "mean distance between levels of quantiles and the share of targets below them",
        "lower",
    ),
    SPREAD,
)


def measures_of(comparison: Comparison) -> tuple[Measure, ...]:
    """Return the measures that a comparison has, the caller's own last."""
    known = comparison.score_names
    numbers = "rmse" in known
    shown = (_of_numbers(m) if numbers else m for m in MEASURES if m.score in known)
    sharpness = (SHARPNESS,) if comparison.has_sharpness else ()
    own = (Measure(n, *2 * (shown_name(n),)) for n in comparison.custom_metrics)
    return (*shown, *sharpness, *own)


def _of_numbers(measure: Measure) -> Measure:
    """Return a measure of predicted numbers, whose log loss can be negative."""
    return replace(measure, limits=ANY) if measure.score == "nll" else measure


def leading_measure(comparison: Comparison) -> Measure:
    """Return the measure that a page speaks of first."""
    known = comparison.score_names
    return next((m for m in (ACCURACY, RMSE, SPREAD) if m.score in known), SPREAD)


def kinds(comparison: Comparison) -> list[str]:
    """Return the data on which all methods were tested, clean ones first."""
    corrupted = ["shifted"] if comparison.has_shift else []
    return ["clean", *corrupted, *comparison.natural_shifts]


def data_name(data: str) -> str:
    """Return the name of data as tables show it.

    Example:
        >>> data_name("shifted"), data_name("sketch")
        ('corrupted', 'sketch')
    """
    return DATA.get(data, data)


def data_title(data: str) -> str:
    """Return what stands over scores on test data.

    Example:
        >>> data_title("shifted")
        'Corrupted test data'
    """
    return f"{opening(data_name(data))} test data"


def shown_name(score: str) -> str:
    """Return the name of a score or metric as headings show it."""
    return "PDS" if score == "pds" else score.replace("_", " ")
