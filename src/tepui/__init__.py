"""Deep ensembles whose members are flat and different from each other."""

import logging
from typing import TYPE_CHECKING as _TYPE_CHECKING

from tepui.core.extras import late as _late
from tepui.core.text import ShownInNotebooks as _ShownInNotebooks
from tepui.core.version import __version__

if _TYPE_CHECKING:
    from tepui import (
        data,
        losses,
        methods,
        metrics,
        models,
        optim,
        sharpness,
        tasks,
        theory,
    )
    from tepui.core.members import hyperparameter_grid
    from tepui.ensembles.ensemble import Ensemble
    from tepui.ensembles.loading import load
    from tepui.evaluation.combining import (
        Aggregated,
        GreedySoup,
        OracleSelection,
        aggregations,
        greedy_soup,
        oracle_selection,
        uniform_soup,
    )
    from tepui.evaluation.evaluate import evaluate
    from tepui.evaluation.measure import EnsembleMeasurement, measure
    from tepui.evaluation.ood import Detection
    from tepui.evaluation.results import Evaluation
    from tepui.evaluation.stored_logits import StoredLogits, read_logits
    from tepui.modules.features import cached_features
    from tepui.modules.pruning import Prune
    from tepui.tasks import Prediction, Scores, Task
    from tepui.training import (
        SGD,
        AdamW,
        Callback,
        Constant,
        Cosine,
        EarlyStopping,
        EpochRecord,
        MultiStep,
        Run,
        TrainingDiverged,
        distil,
        fit,
    )
else:
    __getattr__ = _late(
        __name__,
        {
            "": "data export hub losses methods metrics models optim papers report "
            "sharpness sklearn studies tasks testing theory tracking",
            "tepui.core.members": "hyperparameter_grid",
            "tepui.ensembles.ensemble": "Ensemble",
            "tepui.ensembles.loading": "load",
            "tepui.evaluation.combining": "Aggregated GreedySoup OracleSelection "
            "aggregations greedy_soup oracle_selection uniform_soup",
            "tepui.evaluation.evaluate": "evaluate",
            "tepui.evaluation.measure": "EnsembleMeasurement measure",
            "tepui.evaluation.ood": "Detection",
            "tepui.evaluation.results": "Evaluation",
            "tepui.evaluation.stored_logits": "StoredLogits read_logits",
            "tepui.modules.features": "cached_features",
            "tepui.modules.pruning": "Prune",
            "tepui.tasks": "Prediction Scores Task",
            "tepui.training": "SGD AdamW Callback Constant Cosine EarlyStopping "
            "EpochRecord MultiStep Run TrainingDiverged distil fit",
        },
    )

# Quiet unless an application asks: logging.getLogger("tepui").setLevel("INFO").
logging.getLogger(__name__).addHandler(logging.NullHandler())


def __dir__() -> list[str]:
    return __all__


def _piece_of_page(shown: object) -> str:
    """Return what notebooks show of an object; the page is loaded only then."""
    from tepui.report.notebooks import html

    return html(shown)


_ShownInNotebooks._repr_html_ = _piece_of_page

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
    "distil",
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
    "tasks",
    "theory",
    "uniform_soup",
]
