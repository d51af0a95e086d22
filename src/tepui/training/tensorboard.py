"""Writing a run's figures for TensorBoard, where that is installed."""

from functools import cache
from pathlib import Path

from tepui.training.run_folder import EpochRecord


class TensorBoard:
    """A callback of :func:`tepui.fit` that writes event files.

    Args:
        folder: Where the event files go.

    Raises:
        ImportError: If TensorBoard is not installed; the message is the remedy.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError as error:
            raise ImportError(
                "TensorBoard is not installed: pip install tensorboard"
            ) from error
        # Opened at the first record: a run folder must be empty when the run begins.
        self._open = cache(lambda: SummaryWriter(str(folder)))

    def __call__(self, record: EpochRecord) -> None:
        """Write one epoch."""
        writer = self._open()
        for name in ("loss", "learning_rate", "validation_loss"):
            for member, value in enumerate(getattr(record, name)):
                if value is not None:
                    writer.add_scalar(f"{name}/member {member}", value, record.epoch)
        if record.joint_loss is not None:
            writer.add_scalar("joint_loss", record.joint_loss, record.epoch)
        writer.add_scalar("samples_per_second", record.samples_per_second, record.epoch)
        writer.flush()
