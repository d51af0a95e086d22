"""Metrics of ensembles: pure functions of logits and labels.

Logits have shape ``(members, samples, classes)``, labels ``(samples,)``. Each function
reads them without changing them and returns tensors on the device of the logits,
without gradient. Logits in 16 bits are worked on and answered in float32; float64 stays
float64.

Each function checks what it is given on entry and raises a ``ValueError`` that names
argument, rule and value: logits must be finite, labels classes of the logits, options
among those listed. Metrics that compare members need two of them.

Other tasks have metrics of what they answer: numbers, of shape
``(members, samples, …)`` with targets ``(samples, …)``, their intervals and quantiles
(:func:`rmse`, :func:`gaussian_nll`, :func:`gaussian_crps`, :func:`interval_score`,
:func:`quantile_calibration` and their kin); probabilities of labels that do not exclude
each other, ``(samples, labels)`` (:func:`mean_average_precision`, :func:`label_auroc`,
:func:`label_ece`); and images, of which :func:`pixels` makes samples
(:func:`mean_iou`).

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
    AdaptiveECE,
    Binning,
    CalibrationScope,
    Reliability,
    ReliabilityDiagram,
    adaptive_ece,
    ece,
    mce,
    reliability,
)
from tepui.metrics.calibrators import (
    Calibration,
    CalibrationMethod,
    Isotonic,
    TemperatureScaling,
    VectorScaling,
    fit_calibration,
)
from tepui.metrics.chunks import Chunk, Rule
from tepui.metrics.class_scores import (
    BalancedAccuracy,
    ClassRates,
    ClassScores,
    balanced_accuracy,
    class_scores,
)
from tepui.metrics.conformal.intervals import ConformalIntervals, IntervalScoreName
from tepui.metrics.conformal.quantile import conformal_quantile
from tepui.metrics.conformal.sets import ConformalSets, SetScore
from tepui.metrics.conformal.stored import Conformity
from tepui.metrics.crps import (
    GaussianCRPS,
    QuantileCRPS,
    SampleCRPS,
    gaussian_crps,
    quantile_crps,
    sample_crps,
)
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
from tepui.metrics.feature_detectors import (
    FeatureScore,
    Mahalanobis,
    NearestNeighbor,
    ViM,
)
from tepui.metrics.gaussian_mixture import gaussian_quantiles
from tepui.metrics.held_out_scores import HeldOutScores
from tepui.metrics.intervals import (
    IntervalCoverage,
    IntervalScore,
    IntervalWidth,
    QuantileCalibration,
    interval_coverage,
    interval_score,
    interval_width,
    quantile_calibration,
)
from tepui.metrics.multilabel import (
    LabelAUROC,
    LabelECE,
    MeanAveragePrecision,
    label_auroc,
    label_ece,
    mean_average_precision,
)
from tepui.metrics.ood import AUPR, AUROC, FPR95, Positive, aupr, auroc, fpr95
from tepui.metrics.ranks import rank_correlation, ranks
from tepui.metrics.regression import RMSE, GaussianNLL, gaussian_nll, rmse
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
from tepui.metrics.segmentation import MeanIoU, mean_iou, pixels
from tepui.metrics.selective import (
    AUGRC,
    AURC,
    RiskCoverage,
    SelectiveCurve,
    augrc,
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
    "AUGRC",
    "AUPR",
    "AURC",
    "AUROC",
    "DER",
    "ECE",
    "EIR",
    "FPR95",
    "MCE",
    "NLL",
    "RMSE",
    "Accuracy",
    "AdaptiveECE",
    "BalancedAccuracy",
    "Binning",
    "Brier",
    "BrierDecomposition",
    "BrierParts",
    "Calibration",
    "CalibrationMethod",
    "CalibrationScope",
    "Chunk",
    "ClassRates",
    "ClassScores",
    "Collection",
    "ConformalIntervals",
    "ConformalSets",
    "Conformity",
    "Disagreement",
    "FeatureScore",
    "GaussianCRPS",
    "GaussianNLL",
    "HeldOutScores",
    "IndividualAccuracy",
    "IndividualNLL",
    "IntervalCoverage",
    "IntervalScore",
    "IntervalScoreName",
    "IntervalWidth",
    "Isotonic",
    "LabelAUROC",
    "LabelECE",
    "LogitVariance",
    "LogitsStreaming",
    "Mahalanobis",
    "MeanAveragePrecision",
    "MeanIoU",
    "MeanKL",
    "NearestNeighbor",
    "PairwiseDisagreement",
    "PairwiseKL",
    "Positive",
    "ProbabilityVariance",
    "Protocol",
    "QuantileCRPS",
    "QuantileCalibration",
    "Reliability",
    "ReliabilityDiagram",
    "RiskCoverage",
    "Rule",
    "SampleCRPS",
    "SampleMean",
    "Score",
    "SelectiveCurve",
    "SetScore",
    "SizeCurve",
    "State",
    "Streaming",
    "TemperatureScaling",
    "UniquePredictions",
    "VectorScaling",
    "ViM",
    "accuracy",
    "adaptive_ece",
    "augrc",
    "aupr",
    "aurc",
    "auroc",
    "balanced_accuracy",
    "brier",
    "brier_decomposition",
    "class_scores",
    "conformal_quantile",
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
    "fit_calibration",
    "fpr95",
    "gaussian_crps",
    "gaussian_nll",
    "gaussian_quantiles",
    "individual_accuracy",
    "individual_nll",
    "interval_coverage",
    "interval_score",
    "interval_width",
    "label_auroc",
    "label_ece",
    "logit_variance",
    "max_logit",
    "max_mean_probability",
    "mce",
    "mean_average_precision",
    "mean_iou",
    "mean_kl",
    "mutual_information",
    "nll",
    "ood_scores",
    "pairwise_disagreement",
    "pairwise_kl",
    "pds",
    "pixels",
    "predictions",
    "predictive_variance",
    "probability_variance",
    "quantile_calibration",
    "quantile_crps",
    "rank_correlation",
    "ranks",
    "reliability",
    "restrict_classes",
    "rmse",
    "sample_crps",
    "selective_curve",
    "size_curve",
    "sub_ensembles",
    "subset_accuracy",
    "subset_vote",
    "temperature",
    "unique_predictions",
]
