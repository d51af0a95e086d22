"""Trackers by the names that ``--track`` takes."""

from collections.abc import Sequence
from typing import Literal

from tepui.training import Callback

TrackerName = Literal["tensorboard", "mlflow", "wandb"]


def trackers_named(names: Sequence[TrackerName] | None) -> list[Callback]:
    """Return the trackers of some names, set by their own environment variables."""
    from tepui.tracking import MLflow, TensorBoard, WandB

    kinds: dict[TrackerName, type[Callback]] = {
        "tensorboard": TensorBoard,
        "mlflow": MLflow,
        "wandb": WandB,
    }
    return [kinds[name]() for name in names or ()]
