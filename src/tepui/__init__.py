"""Deep ensembles whose members are flat and different from each other."""

from tepui import data, losses, methods, metrics, models, optim, soup, theory
from tepui.aggregation import (
    Aggregated,
    OracleSelection,
    aggregations,
    oracle_selection,
)
from tepui.detection import Detection
from tepui.engine import (
    SGD,
    AdamW,
    Constant,
    Cosine,
    EpochRecord,
    MultiStep,
    Run,
    TensorBoard,
    TrainingDiverged,
    fit,
)
from tepui.ensemble import Ensemble, load
from tepui.evaluation import Evaluation, Scores, evaluate
from tepui.features import cached_features
from tepui.hyperparameters import hyperparameter_grid
from tepui.measuring import EnsembleMeasurement, measure
from tepui.prediction import Prediction
from tepui.pruning import Prune
from tepui.stored_logits import StoredLogits, read_logits
from tepui.version import __version__

__all__ = [
    "SGD",
    "AdamW",
    "Aggregated",
    "Constant",
    "Cosine",
    "Detection",
    "Ensemble",
    "EnsembleMeasurement",
    "EpochRecord",
    "Evaluation",
    "MultiStep",
    "OracleSelection",
    "Prediction",
    "Prune",
    "Run",
    "Scores",
    "StoredLogits",
    "TensorBoard",
    "TrainingDiverged",
    "__version__",
    "aggregations",
    "cached_features",
    "data",
    "evaluate",
    "fit",
    "hyperparameter_grid",
    "load",
    "losses",
    "measure",
    "methods",
    "metrics",
    "models",
    "optim",
    "oracle_selection",
    "read_logits",
    "soup",
    "theory",
]
