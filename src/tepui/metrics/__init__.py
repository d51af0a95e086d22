"""Metrics of ensembles: pure functions of logits and labels.

Logits have shape ``(members, samples, classes)``, labels ``(samples,)``. Each function
checks both on entry, reads them without changing them and returns tensors on the
device of the logits, without gradient. Logits in 16 bits are worked on and answered in
float32; float64 stays float64. Logits must be finite.
"""

from tepui.metrics.accuracy import accuracy, corruption_accuracy, individual_accuracy
from tepui.metrics.aggregate import (
    Rule,
    ensemble_log_probs,
    ensemble_predictions,
    ensemble_probs,
    predictions,
)
from tepui.metrics.calibration import Reliability, brier, ece, nll, reliability
from tepui.metrics.diversity import (
    der,
    disagreement,
    eir,
    kl,
    pairwise_disagreement,
    pairwise_kl,
    unique_predictions,
    variance,
)
from tepui.metrics.subset import Protocol, subset_accuracy, subset_vote
from tepui.metrics.uncertainty import (
    bma,
    entropy,
    mutual_information,
    pds,
    predictive_variance,
)

__all__ = [
    "Protocol",
    "Reliability",
    "Rule",
    "accuracy",
    "bma",
    "brier",
    "corruption_accuracy",
    "der",
    "disagreement",
    "ece",
    "eir",
    "ensemble_log_probs",
    "ensemble_predictions",
    "ensemble_probs",
    "entropy",
    "individual_accuracy",
    "kl",
    "mutual_information",
    "nll",
    "pairwise_disagreement",
    "pairwise_kl",
    "pds",
    "predictions",
    "predictive_variance",
    "reliability",
    "subset_accuracy",
    "subset_vote",
    "unique_predictions",
    "variance",
]
