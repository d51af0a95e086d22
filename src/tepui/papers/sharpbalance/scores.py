"""Scores of trained ensembles as records, by the paper's names."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tepui.studies.results import Record, averaged
from tepui.studies.specifications import Trial

Scored = Mapping[str, float | None]
# Metric: field of the scores, unit, and what the field is multiplied by.
METRICS = {
    "individual_accuracy": ("individual_accuracy", "percent", 100),
    "ensemble_accuracy": ("accuracy", "percent", 100),
    "ensemble_improvement": ("improvement", "percentage points", 100),
    "eir": ("eir", "fraction", 1),
    "der": ("der", "ratio", 1),
    "kl": ("mean_kl", "none", 1),
    "variance": ("logit_variance", "none", 1),
    "ece": ("ece", "fraction", 1),
    "nll": ("nll", "none", 1),
}


def metric_values(scores: Iterable[Scored], metric: str) -> list[float | None]:
    """Return one metric of several ensembles.

    Example:
        >>> metric_values([{"accuracy": 0.5}, {"accuracy": None}], "ensemble_accuracy")
        [50.0, None]
    """
    field, _, factor = METRICS[metric]
    values = [ensemble[field] for ensemble in scores]
    return [None if value is None else factor * value for value in values]


def score_records(
    scores: Sequence[Scored],
    metrics: Iterable[str],
    trials: Sequence[Trial],
    members: Mapping[str, tuple[float, ...]] | None = None,
    **names: Any,
) -> Iterator[Record]:
    """Return a record per metric, averaged over ensembles; some by member, too."""
    for metric in metrics:
        unit = METRICS[metric][1]
        values = metric_values(scores, metric)
        more = {"unit": unit, "members": (members or {}).get(metric, ()), **names}
        yield averaged(values, trials, metric=metric, **more)
