"""Studies made of several runs: what to train, and what came of it."""

from tepui.studies.compare import compare
from tepui.studies.executors import Executor, Processes, Ray, Slurm
from tepui.studies.job import Job
from tepui.studies.jobs import carry_out
from tepui.studies.results import Record, Results, averaged, read_results
from tepui.studies.significance import (
    Difference,
    crossed_difference,
    differences,
    holm,
    paired_difference,
)
from tepui.studies.slopes import Slope, tradeoff_slope
from tepui.studies.specifications import (
    DataSource,
    EvaluationSpec,
    Samples,
    SharpnessSpec,
    Trial,
    seeds,
)
from tepui.studies.statistics import (
    Estimate,
    Interval,
    estimate,
    estimate_pairs,
    mean_interval,
    pair_pseudo_values,
    t_interval,
)
from tepui.studies.store import Store
from tepui.studies.sweep import Outcome, Search, search, sweep
from tepui.studies.verifying import Finding, verify

__all__ = [
    "DataSource",
    "Difference",
    "Estimate",
    "EvaluationSpec",
    "Executor",
    "Finding",
    "Interval",
    "Job",
    "Outcome",
    "Processes",
    "Ray",
    "Record",
    "Results",
    "Samples",
    "Search",
    "SharpnessSpec",
    "Slope",
    "Slurm",
    "Store",
    "Trial",
    "averaged",
    "carry_out",
    "compare",
    "crossed_difference",
    "differences",
    "estimate",
    "estimate_pairs",
    "holm",
    "mean_interval",
    "pair_pseudo_values",
    "paired_difference",
    "read_results",
    "search",
    "seeds",
    "sweep",
    "t_interval",
    "tradeoff_slope",
    "verify",
]
