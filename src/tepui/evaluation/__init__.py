"""What is done with a trained ensemble: scores, sharpness, OOD detection, soups."""

from tepui.evaluation.combining import (
    Aggregated,
    OracleSelection,
    aggregations,
    oracle_selection,
)
from tepui.evaluation.evaluate import evaluate
from tepui.evaluation.logit_runs import LogitRuns
from tepui.evaluation.measure import EnsembleMeasurement, measure
from tepui.evaluation.memory import MemoryPrice, evaluation_memory
from tepui.evaluation.ood import Detection
from tepui.evaluation.results import Evaluation
from tepui.evaluation.sample_statistics import sample_statistics
from tepui.evaluation.scores import Scores
from tepui.evaluation.shards import ShardedPredictions, predict_shards
from tepui.evaluation.soup import GreedySoup, greedy_soup, uniform_soup
from tepui.evaluation.stored_logits import StoredLogits, read_logits

__all__ = [
    "Aggregated",
    "Detection",
    "EnsembleMeasurement",
    "Evaluation",
    "GreedySoup",
    "LogitRuns",
    "MemoryPrice",
    "OracleSelection",
    "Scores",
    "ShardedPredictions",
    "StoredLogits",
    "aggregations",
    "evaluate",
    "evaluation_memory",
    "greedy_soup",
    "measure",
    "oracle_selection",
    "predict_shards",
    "read_logits",
    "sample_statistics",
    "uniform_soup",
]
