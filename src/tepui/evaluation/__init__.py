"""What is done with a trained ensemble: scores, sharpness, OOD detection, soups."""

from tepui.evaluation.combining import (
    Aggregated,
    OracleSelection,
    aggregations,
    oracle_selection,
)
from tepui.evaluation.evaluate import evaluate
from tepui.evaluation.measure import EnsembleMeasurement, measure
from tepui.evaluation.ood import Detection
from tepui.evaluation.results import Evaluation
from tepui.evaluation.scores import Scores
from tepui.evaluation.soup import GreedySoup, greedy_soup, uniform_soup
from tepui.evaluation.stored_logits import StoredLogits, read_logits

__all__ = [
    "Aggregated",
    "Detection",
    "EnsembleMeasurement",
    "Evaluation",
    "GreedySoup",
    "OracleSelection",
    "Scores",
    "StoredLogits",
    "aggregations",
    "evaluate",
    "greedy_soup",
    "measure",
    "oracle_selection",
    "read_logits",
    "uniform_soup",
]
