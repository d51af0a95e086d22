"""Metrics of ensembles: pure functions of logits and labels.

Logits have shape ``(members, samples, classes)``, labels ``(samples,)``. Each function
checks both on entry, reads them without changing them and returns tensors on the
device of the logits, without gradient. Logits in 16 bits are worked on and answered in
float32; float64 stays float64. Logits must be finite.
"""

from tepui.metrics.accuracy import (
    Accuracy,
    IndividualAccuracy,
    accuracy,
    corruption_accuracy,
    individual_accuracy,
)
from tepui.metrics.aggregate import (
    ensemble_log_probs,
    ensemble_predictions,
    ensemble_probs,
    predictions,
)
from tepui.metrics.calibration import (
    ECE,
    MCE,
    Binning,
    Calibrated,
    Reliability,
    ReliabilityDiagram,
    ece,
    mce,
    reliability,
)
from tepui.metrics.chunks import (
    Rule,
)
from tepui.metrics.diversity import (
    DER,
    EIR,
    KL,
    Disagreement,
    Output,
    PairwiseDisagreement,
    PairwiseKL,
    UniquePredictions,
    Variance,
    der,
    disagreement,
    eir,
    kl,
    pairwise_disagreement,
    pairwise_kl,
    unique_predictions,
    variance,
)
from tepui.metrics.ood import (
    AUPR,
    AUROC,
    FPR95,
    Positive,
    aupr,
    auroc,
    fpr95,
)
from tepui.metrics.ranks import (
    rank_correlation,
    ranks,
)
from tepui.metrics.scoring import (
    NLL,
    Brier,
    BrierDecomposition,
    BrierParts,
    brier,
    brier_decomposition,
    nll,
)
from tepui.metrics.selective import (
    AURC,
    RiskCoverage,
    SelectiveCurve,
    aurc,
    selective_curve,
)
from tepui.metrics.sizes import (
    SizeCurve,
    size_curve,
    sub_ensembles,
)
from tepui.metrics.streaming import (
    Collection,
    LogitsStreaming,
    Streaming,
)
from tepui.metrics.subset import Protocol, subset_accuracy, subset_vote
from tepui.metrics.temperature import (
    temperature,
)
from tepui.metrics.uncertainty import (
    Score,
    bma,
    energy,
    entropy,
    max_logit,
    mutual_information,
    ood_scores,
    pds,
    predictive_variance,
)

__all__ = [
    "AUPR",
    "AURC",
    "AUROC",
    "DER",
    "ECE",
    "EIR",
    "FPR95",
    "KL",
    "MCE",
    "NLL",
    "Accuracy",
    "Binning",
    "Brier",
    "BrierDecomposition",
    "BrierParts",
    "Calibrated",
    "Collection",
    "Disagreement",
    "IndividualAccuracy",
    "LogitsStreaming",
    "Output",
    "PairwiseDisagreement",
    "PairwiseKL",
    "Positive",
    "Protocol",
    "Reliability",
    "ReliabilityDiagram",
    "RiskCoverage",
    "Rule",
    "Score",
    "SelectiveCurve",
    "SizeCurve",
    "Streaming",
    "UniquePredictions",
    "Variance",
    "accuracy",
    "aupr",
    "aurc",
    "auroc",
    "bma",
    "brier",
    "brier_decomposition",
    "corruption_accuracy",
    "der",
    "disagreement",
    "ece",
    "eir",
    "energy",
    "ensemble_log_probs",
    "ensemble_predictions",
    "ensemble_probs",
    "entropy",
    "fpr95",
    "individual_accuracy",
    "kl",
    "max_logit",
    "mce",
    "mutual_information",
    "nll",
    "ood_scores",
    "pairwise_disagreement",
    "pairwise_kl",
    "pds",
    "predictions",
    "predictive_variance",
    "rank_correlation",
    "ranks",
    "reliability",
    "selective_curve",
    "size_curve",
    "sub_ensembles",
    "subset_accuracy",
    "subset_vote",
    "temperature",
    "unique_predictions",
    "variance",
]
