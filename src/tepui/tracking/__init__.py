"""Showing runs where one keeps them: TensorBoard, MLflow, Weights & Biases.

Each is a :class:`tepui.Callback`, given to ``callbacks`` or named by ``--set track=``.
Libraries are imported when they are used; the extra ``track`` installs them.
"""

from tepui.tracking.mlflow import MLflow
from tepui.tracking.tensorboard import TensorBoard
from tepui.tracking.wandb import WandB

__all__ = ["MLflow", "TensorBoard", "WandB"]
