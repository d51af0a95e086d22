"""Metrics of ensembles: pure functions of logits and labels.

Logits have shape ``(members, samples, classes)``, labels ``(samples,)``. Each function
reads them without changing them and returns tensors on the device of the logits,
without gradient. Logits in 16 bits are worked on and answered in float32; float64 stays
float64.

Each function checks what it is given on entry and raises a ``ValueError`` that names
argument, rule and value: logits must be finite, labels classes of the logits, options
among those listed. Metrics that compare members need two of them.

The functions that reduce logits to a few numbers have a class of the same name for
samples that come in chunks, with the function's options; see
:mod:`tepui.metrics.streaming`, also for writing your own.
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
    CalibrationScope,
    Reliability,
    ReliabilityDiagram,
    ece,
    mce,
    reliability,
)
from tepui.metrics.chunks import Chunk, Rule
from tepui.metrics.diversity import (
    DER,
    EIR,
    Disagreement,
    LogitVariance,
    MeanKL,
    PairwiseDisagreement,
    PairwiseKL,
    ProbabilityVariance,
    UniquePredictions,
    der,
    disagreement,
    eir,
    logit_variance,
    mean_kl,
    pairwise_disagreement,
    pairwise_kl,
    probability_variance,
    unique_predictions,
)
from tepui.metrics.ood import AUPR, AUROC, FPR95, Positive, aupr, auroc, fpr95
from tepui.metrics.ranks import rank_correlation, ranks
from tepui.metrics.scoring import (
    NLL,
    Brier,
    BrierDecomposition,
    BrierParts,
    IndividualNLL,
    brier,
    brier_decomposition,
    individual_nll,
    nll,
)
from tepui.metrics.selective import (
    AURC,
    RiskCoverage,
    SelectiveCurve,
    aurc,
    selective_curve,
)
from tepui.metrics.sizes import SizeCurve, size_curve, sub_ensembles
from tepui.metrics.streaming import (
    Collection,
    LogitsStreaming,
    SampleMean,
    State,
    Streaming,
)
from tepui.metrics.subset import (
    Protocol,
    restrict_classes,
    subset_accuracy,
    subset_vote,
)
from tepui.metrics.temperature import temperature
from tepui.metrics.uncertainty import (
    Score,
    energy,
    entropy,
    max_logit,
    max_mean_probability,
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
    "MCE",
    "NLL",
    "Accuracy",
    "Binning",
    "Brier",
    "BrierDecomposition",
    "BrierParts",
    "CalibrationScope",
    "Chunk",
    "Collection",
    "Disagreement",
    "IndividualAccuracy",
    "IndividualNLL",
    "LogitVariance",
    "LogitsStreaming",
    "MeanKL",
    "PairwiseDisagreement",
    "PairwiseKL",
    "Positive",
    "ProbabilityVariance",
    "Protocol",
    "Reliability",
    "ReliabilityDiagram",
    "RiskCoverage",
    "Rule",
    "SampleMean",
    "Score",
    "SelectiveCurve",
    "SizeCurve",
    "State",
    "Streaming",
    "UniquePredictions",
    "accuracy",
    "aupr",
    "aurc",
    "auroc",
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
    "individual_nll",
    "logit_variance",
    "max_logit",
    "max_mean_probability",
    "mce",
    "mean_kl",
    "mutual_information",
    "nll",
    "ood_scores",
    "pairwise_disagreement",
    "pairwise_kl",
    "pds",
    "predictions",
    "predictive_variance",
    "probability_variance",
    "rank_correlation",
    "ranks",
    "reliability",
    "restrict_classes",
    "selective_curve",
    "size_curve",
    "sub_ensembles",
    "subset_accuracy",
    "subset_vote",
    "temperature",
    "unique_predictions",
]
