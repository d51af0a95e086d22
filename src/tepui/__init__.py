"""Deep ensembles whose members are flat and different from each other."""

import logging
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from tepui import (
    data,
    losses,
    methods,
    metrics,
    models,
    optim,
    sharpness,
    theory,
)
from tepui.core.hyperparameters import hyperparameter_grid
from tepui.core.notebooks import ShownInNotebooks as _ShownInNotebooks
from tepui.core.task import Task
from tepui.core.version import __version__
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.loading import load
from tepui.ensembles.prediction import Prediction
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
from tepui.modules.features import cached_features
from tepui.modules.pruning import Prune
from tepui.training import (
    SGD,
    AdamW,
    Callback,
    Constant,
    Cosine,
    EarlyStopping,
    EpochRecord,
    FromFunction,
    MultiStep,
    Run,
    TrainingDiverged,
    fit,
)

# Quiet unless an application asks: logging.getLogger("tepui").setLevel("INFO").
logging.getLogger(__name__).addHandler(logging.NullHandler())


def _piece_of_page(shown: object) -> str:
    """Return what notebooks show of an object; the page is loaded only then."""
    from tepui.report.notebooks import html

    return html(shown)


_ShownInNotebooks._repr_html_ = _piece_of_page

# Packages that stand on others, loaded where somebody first asks for them.
_LATER = (
    "export",
    "hub",
    "papers",
    "report",
    "sklearn",
    "studies",
    "testing",
    "tracking",
)

if not _TYPE_CHECKING:  # a type checker would take every name for one of these

    def __getattr__(name: str) -> object:
        if name in _LATER:
            return _import_module(f"tepui.{name}")
        raise AttributeError(f"module 'tepui' has no attribute {name!r}")


__all__ = [
    "SGD",
    "AdamW",
    "Aggregated",
    "Callback",
    "Constant",
    "Cosine",
    "Detection",
    "EarlyStopping",
    "Ensemble",
    "EnsembleMeasurement",
    "EpochRecord",
    "Evaluation",
    "FromFunction",
    "GreedySoup",
    "MultiStep",
    "OracleSelection",
    "Prediction",
    "Prune",
    "Run",
    "Scores",
    "StoredLogits",
    "Task",
    "TrainingDiverged",
    "__version__",
    "aggregations",
    "cached_features",
    "data",
    "evaluate",
    "fit",
    "greedy_soup",
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
    "sharpness",
    "theory",
    "uniform_soup",
]
