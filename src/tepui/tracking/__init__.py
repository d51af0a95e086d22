"""Showing runs where one keeps them: TensorBoard, MLflow, Weights & Biases.

Each is a :class:`tepui.Callback`, given to ``callbacks`` or named by ``--set track=``.
Libraries are imported when they are used; the extra ``track`` installs them.
"""

from tepui.tracking.trackers import MLflow, TensorBoard, WandB

__all__ = ["MLflow", "TensorBoard", "WandB"]
