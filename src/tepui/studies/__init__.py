"""Studies made of several runs: what to train, and what came of it."""

from tepui.studies.compare import compare
from tepui.studies.comparison import (
    Comparison,
    MethodResult,
    Trained,
    read_comparison,
)
from tepui.studies.load_reports import LoadedReports, load_reports
from tepui.studies.statistics import (
    Difference,
    Estimate,
    Slope,
    bootstrap_interval,
    differences,
    equivalence,
    estimate,
    estimate_pairs,
    holm,
    pair_pseudo_values,
    paired_difference,
    t_interval,
    tradeoff_slope,
)

__all__ = [
    "Comparison",
    "Difference",
    "Estimate",
    "LoadedReports",
    "MethodResult",
    "Slope",
    "Trained",
    "bootstrap_interval",
    "compare",
    "differences",
    "equivalence",
    "estimate",
    "estimate_pairs",
    "holm",
    "load_reports",
    "pair_pseudo_values",
    "paired_difference",
    "read_comparison",
    "t_interval",
    "tradeoff_slope",
]
