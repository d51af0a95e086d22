"""What stored logits are of, by which those of other evaluations are told apart."""

from typing import Any

from torch import Tensor
from torch.utils.data import Dataset

from tepui.data.identity import data_digest
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.dataset_logits import Classes
from tepui.metrics import Rule
from tepui.modules.state import weights_digest


def told_apart_by(
    ensemble: Ensemble, dataset: Dataset[Any], classes: Classes | Tensor, rule: Rule
) -> dict[str, Any]:
    """Return what tells evaluations apart whose logits do not belong together."""
    return {
        "ensemble": weights_digest(ensemble),
        "dataset": data_digest(dataset),
        "classes": written(classes),
        "rule": rule,
    }


def written(classes: Classes | Tensor) -> str | list[bool]:
    """Return a choice of classes as JSON takes it."""
    return classes if isinstance(classes, str) else classes.tolist()
