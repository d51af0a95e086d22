"""Deep ensembles whose members are flat and different from each other."""

from tepui import data, losses, methods, metrics, models, optim
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
from tepui.prediction import Prediction
from tepui.pruning import Prune
from tepui.stored_logits import StoredLogits, read_logits
from tepui.version import __version__

__all__ = [
    "SGD",
    "AdamW",
    "Constant",
    "Cosine",
    "Ensemble",
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
    "data",
    "evaluate",
    "fit",
    "load",
    "losses",
    "methods",
    "metrics",
    "models",
    "optim",
    "read_logits",
]
