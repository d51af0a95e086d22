"""Trackers by the names that ``--set track=`` takes."""

from collections.abc import Sequence

from tepui.core.checks import one_of
from tepui.training import Callback


def trackers_named(names: str | Sequence[str] | None) -> list[Callback]:
    """Return the trackers of some names, set by their own environment variables."""
    from tepui.tracking import MLflow, TensorBoard, WandB

    kinds: dict[str, type[Callback]] = {
        "tensorboard": TensorBoard,
        "mlflow": MLflow,
        "wandb": WandB,
    }
    named = [names] if isinstance(names, str) else names or ()
    for name in named:
        one_of("track", name, kinds)
    return [kinds[name]() for name in named]
