"""What is done with a trained ensemble: scores, sharpness, OOD detection, soups."""

from tepui.ensembles.feature_detectors import FeatureDetectors
from tepui.evaluation.applied import AppliedScores
from tepui.evaluation.by_class import ByClass
from tepui.evaluation.combining import (
    Aggregated,
    GreedySoup,
    OracleSelection,
    aggregations,
    greedy_soup,
    oracle_selection,
    uniform_soup,
)
from tepui.evaluation.cost import PredictionCost, prediction_cost
from tepui.evaluation.evaluate import evaluate
from tepui.evaluation.evaluations import read_evaluation
from tepui.evaluation.measure import EnsembleMeasurement, measure
from tepui.evaluation.ood import Detection, Selective
from tepui.evaluation.predictions import write_predictions
from tepui.evaluation.results import Evaluation
from tepui.evaluation.stored_logits import LogitRuns, StoredLogits, read_logits

__all__ = [
    "Aggregated",
    "AppliedScores",
    "ByClass",
    "Detection",
    "EnsembleMeasurement",
    "Evaluation",
    "FeatureDetectors",
    "GreedySoup",
    "LogitRuns",
    "OracleSelection",
    "PredictionCost",
    "Selective",
    "StoredLogits",
    "aggregations",
    "evaluate",
    "greedy_soup",
    "measure",
    "oracle_selection",
    "prediction_cost",
    "read_evaluation",
    "read_logits",
    "uniform_soup",
    "write_predictions",
]
