"""A run's figures as files that TensorBoard shows."""

import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import Any, final

from tepui.core.checks import require
from tepui.core.extras import extra
from tepui.tracking.figures import figures
from tepui.tracking.identity import shown
from tepui.training import Callback, EpochRecord, Run


@final
class TensorBoard(Callback):
    """Write event files that TensorBoard shows.

    Args:
        folder: Where they go; by default into ``tensorboard`` in the run folder.

    Raises:
        ImportError: If TensorBoard is not installed; the message is the remedy.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        extra("tensorboard", "track")
        self._folder = folder
        self._writer: Any = None
        self._new: list[Path] = []  # files that say nothing of an epoch yet
        self._made = False  # whether their folder was not there before

    def on_start(self, config: Mapping[str, Any]) -> None:
        """Open an event file and write down what was asked for."""
        from torch.utils.tensorboard.writer import SummaryWriter

        folder, out = self._folder, config["out"]
        rule = "be given where the run has no folder (out)"
        require(folder is not None or out is not None, "folder", rule, folder)
        place = Path(out) / "tensorboard" if folder is None else Path(folder)
        # Another machine that writes here may have a process of the same number.
        host = escape(socket.gethostname())
        own = f"events.out.tfevents.*.{host}.{os.getpid()}.*"
        before, self._made = {*place.glob(own)}, not place.exists()
        self._writer = SummaryWriter(str(place))
        self._new = [*{*place.glob(own)} - before]
        self._writer.add_text("config", _as_code(shown(config)))

    def on_epoch(self, record: EpochRecord) -> None:
        """Write the figures of an epoch."""
        for name, value in figures(record).items():
            self._writer.add_scalar(name, value, record.epoch)
        self._writer.flush()
        self._new = []

    def on_end(self, run: Run) -> None:
        """Close the event file."""
        self._close()

    def on_error(self, error: BaseException) -> None:
        """Close the event file, and remove it if it says nothing of an epoch."""
        self._close()
        for file in self._new:
            file.unlink(missing_ok=True)
            if self._made:
                with suppress(OSError):  # other files are in it
                    file.parent.rmdir()

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer = None


def _as_code(config: Mapping[str, Any]) -> str:
    """Return a configuration as a block of code, in which markup is text.

    Example:
        >>> _as_code({"rho": 0.1}).splitlines()
        ['    {', '      "rho": 0.1', '    }']
    """
    lines = json.dumps(config, indent=2, default=str).splitlines()
    return "\n".join(f"    {line}" for line in lines)
