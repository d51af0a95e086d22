"""Sharpness of a model's loss: functions of a model, a loss and data.

Measures of a model take ``(model, dataset, *, loss=cross_entropy, ...)`` and return a
:class:`Measurement`; measures of samples return one value per sample. All leave the
model unchanged, and raise a ``ValueError`` that names argument, rule and value.
"""

from tepui.sharpness.cka import cka, linear_cka, pairwise_cka
from tepui.sharpness.fisher import fisher_rao, fisher_trace, sample_fisher_trace
from tepui.sharpness.hessian import hessian_eigenvalues, hessian_trace
from tepui.sharpness.input_curvature import input_curvature, sample_input_curvature
from tepui.sharpness.measurement import Measurement, Selection, mean_of, select
from tepui.sharpness.ntk_logdet import ntk_logdet
from tepui.sharpness.per_sample import (
    sample_hessian_trace,
    sample_sam_gap,
    sample_worst_case_gap,
)
from tepui.sharpness.random_rises import average_case, sam_sharpness
from tepui.sharpness.relative_flatness import relative_flatness
from tepui.sharpness.weights import WeightVector
from tepui.sharpness.worst_case import worst_case

__all__ = [
    "Measurement",
    "Selection",
    "WeightVector",
    "average_case",
    "cka",
    "fisher_rao",
    "fisher_trace",
    "hessian_eigenvalues",
    "hessian_trace",
    "input_curvature",
    "linear_cka",
    "mean_of",
    "ntk_logdet",
    "pairwise_cka",
    "relative_flatness",
    "sam_sharpness",
    "sample_fisher_trace",
    "sample_hessian_trace",
    "sample_input_curvature",
    "sample_sam_gap",
    "sample_worst_case_gap",
    "select",
    "worst_case",
]
