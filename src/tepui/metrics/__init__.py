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
(:func:`rmse`, :func:`gaussian_nll`, :func:`gaussian_crps`,
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
    BalancedAccuracy,
    ClassRates,
    ClassScores,
    IndividualAccuracy,
    MeanIoU,
    accuracy,
    balanced_accuracy,
    class_scores,
    corruption_accuracy,
    individual_accuracy,
    mean_iou,
    pixels,
    restrict_classes,
    subset_accuracy,
    subset_vote,
)
from tepui.metrics.calibration import (
    ECE,
    Reliability,
    ReliabilityDiagram,
    ece,
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
from tepui.metrics.chunks import (
    Chunk,
    Rule,
    ensemble_log_probs,
    ensemble_predictions,
    ensemble_probs,
    predictions,
)
from tepui.metrics.conformal import (
    ConformalIntervals,
    ConformalSets,
    Conformity,
    IntervalScoreName,
    SetScore,
    conformal_quantile,
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
)
from tepui.metrics.held_out_scores import HeldOutScores
from tepui.metrics.multilabel import (
    LabelAUROC,
    LabelECE,
    MeanAveragePrecision,
    label_auroc,
    label_ece,
    mean_average_precision,
)
from tepui.metrics.numbers import (
    RMSE,
    GaussianCRPS,
    GaussianNLL,
    IntervalCoverage,
    IntervalWidth,
    QuantileCalibration,
    QuantileCRPS,
    SampleCRPS,
    gaussian_crps,
    gaussian_nll,
    gaussian_quantiles,
    interval_coverage,
    interval_width,
    quantile_calibration,
    quantile_crps,
    rmse,
    sample_crps,
)
from tepui.metrics.ood import (
    AURC,
    RiskCoverage,
    SelectiveCurve,
    aupr,
    aurc,
    auroc,
    fpr95,
    rank_correlation,
    ranks,
    selective_curve,
)
from tepui.metrics.scaling import temperature
from tepui.metrics.scoring import (
    NLL,
    Brier,
    IndividualNLL,
    brier,
    individual_nll,
    nll,
)
from tepui.metrics.streaming import (
    Collection,
    LogitsStreaming,
    SampleMean,
    State,
    Streaming,
)
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

__all__ = ["Accuracy", "BalancedAccuracy", "ClassRates", "ClassScores"]
__all__ += ["IndividualAccuracy", "MeanIoU", "accuracy"]
__all__ += ["balanced_accuracy", "class_scores", "corruption_accuracy"]
__all__ += ["individual_accuracy", "mean_iou", "pixels", "restrict_classes"]
__all__ += ["subset_accuracy", "subset_vote"]
__all__ += ["ECE", "Reliability"]
__all__ += ["ReliabilityDiagram", "ece", "reliability"]
__all__ += ["Calibration", "CalibrationMethod", "Isotonic", "TemperatureScaling"]
__all__ += ["VectorScaling", "fit_calibration"]
__all__ += ["Chunk", "Rule", "ensemble_log_probs", "ensemble_predictions"]
__all__ += ["ensemble_probs", "predictions"]
__all__ += ["ConformalIntervals", "ConformalSets", "Conformity", "IntervalScoreName"]
__all__ += ["SetScore", "conformal_quantile"]
__all__ += ["DER", "EIR", "Disagreement", "LogitVariance", "MeanKL"]
__all__ += ["PairwiseDisagreement", "PairwiseKL", "ProbabilityVariance"]
__all__ += ["UniquePredictions", "der", "disagreement", "eir", "logit_variance"]
__all__ += ["mean_kl", "pairwise_disagreement", "pairwise_kl", "probability_variance"]
__all__ += ["unique_predictions"]
__all__ += ["FeatureScore", "Mahalanobis", "NearestNeighbor"]
__all__ += ["HeldOutScores"]
__all__ += ["LabelAUROC", "LabelECE", "MeanAveragePrecision", "label_auroc"]
__all__ += ["label_ece", "mean_average_precision"]
__all__ += ["RMSE", "GaussianCRPS", "GaussianNLL", "IntervalCoverage"]
__all__ += ["IntervalWidth", "QuantileCRPS", "QuantileCalibration", "SampleCRPS"]
__all__ += ["gaussian_crps", "gaussian_nll", "gaussian_quantiles", "interval_coverage"]
__all__ += ["interval_width", "quantile_calibration", "quantile_crps"]
__all__ += ["rmse", "sample_crps"]
__all__ += ["aupr", "auroc", "fpr95"]
__all__ += ["rank_correlation", "ranks"]
__all__ += ["temperature"]
__all__ += ["NLL", "Brier", "IndividualNLL"]
__all__ += ["brier", "individual_nll", "nll"]
__all__ += ["AURC", "RiskCoverage", "SelectiveCurve", "aurc"]
__all__ += ["selective_curve"]
__all__ += ["Collection", "LogitsStreaming", "SampleMean", "State", "Streaming"]
__all__ += ["Score", "energy", "entropy", "max_logit", "max_mean_probability"]
__all__ += ["mutual_information", "ood_scores", "pds", "predictive_variance"]
