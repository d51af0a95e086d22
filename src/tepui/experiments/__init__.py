"""Studies made of several runs: what to train, and what came of it."""

from tepui.experiments.compare import (
    Comparison,
    MethodResult,
    Trained,
    compare,
    read_comparison,
)
from tepui.experiments.gathering import Gathered, gathered
from tepui.experiments.statistics import (
    Estimate,
    Slope,
    estimate,
    estimate_pairs,
    tradeoff_slope,
)

__all__ = [
    "Comparison",
    "Estimate",
    "Gathered",
    "MethodResult",
    "Slope",
    "Trained",
    "compare",
    "estimate",
    "estimate_pairs",
    "gathered",
    "read_comparison",
    "tradeoff_slope",
]
