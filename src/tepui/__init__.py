"""Deep ensembles whose members are flat and different from each other."""

from tepui import data, losses, methods, metrics, models, optim, theory
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
from tepui.measuring import EnsembleMeasurement, measure
from tepui.prediction import Prediction
from tepui.pruning import Prune
from tepui.stored_logits import StoredLogits, read_logits
from tepui.version import __version__

__all__ = [
    "SGD",
    "AdamW",
    "Constant",
    "Cosine",
    "Detection",
    "Ensemble",
    "EnsembleMeasurement",
    "EpochRecord",
    "Evaluation",
    "MultiStep",
    "Prediction",
    "Prune",
    "Run",
    "Scores",
    "StoredLogits",
    "TensorBoard",
    "TrainingDiverged",
    "__version__",
    "cached_features",
    "data",
    "evaluate",
    "fit",
    "load",
    "losses",
    "measure",
    "methods",
    "metrics",
    "models",
    "optim",
    "read_logits",
    "theory",
]
