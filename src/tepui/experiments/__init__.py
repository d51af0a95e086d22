"""Studies made of several runs: what to train, and what came of it."""

from tepui.experiments.compare import (
    Comparison,
    MethodResult,
    Trained,
    compare,
    read_comparison,
)
from tepui.experiments.statistics import Estimate, estimate

__all__ = [
    "Comparison",
    "Estimate",
    "MethodResult",
    "Trained",
    "compare",
    "estimate",
    "read_comparison",
]
