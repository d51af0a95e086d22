"""A run's figures in Weights & Biases."""

from collections.abc import Mapping
from typing import Any, Literal, final

from tepui.core.extras import extra
from tepui.tracking.figures import figures
from tepui.tracking.identity import remember, remembered, run_name, shown
from tepui.training import Callback, EpochRecord, Run

TRACKER = "wandb"
Mode = Literal["online", "offline", "disabled"]


@final
class WandB(Callback):
    """Log runs to Weights & Biases, figures over epochs.

    A run that is resumed goes on in the same run there.

    Args:
        project: The project.
        name: What runs are called; by default after the run folder.
        mode: ``"offline"`` keeps files to be sent later by ``wandb sync``; by default
            as the environment says (``WANDB_MODE``).

    Raises:
        ImportError: If the library is not installed; the message is the remedy.
    """

    def __init__(
        self,
        project: str = "tepui",
        *,
        name: str | None = None,
        mode: Mode | None = None,
    ) -> None:
        extra("wandb", "track")
        self._project, self._name, self._mode = project, name, mode
        self._run: Any = None

    def on_start(self, config: Mapping[str, Any]) -> None:
        """Begin a run, or go on with the one that was begun before."""
        known = remembered(config, TRACKER)
        self._run = extra("wandb", "track").init(
            project=self._project,
            name=self._name or run_name(config),
            config=shown(config),
            mode=self._mode,
            id=known,
            resume=None if known is None else "allow",
            reinit="create_new",
        )
        remember(config, TRACKER, str(self._run.id))
        # Its own count of steps would drop epochs that are trained again after a kill.
        self._run.define_metric("*", step_metric="epoch")

    def on_epoch(self, record: EpochRecord) -> None:
        """Log the figures of an epoch."""
        self._run.log({"epoch": record.epoch, **figures(record)})

    def on_end(self, run: Run) -> None:
        """End the run, saying who stopped it early if somebody did."""
        if run.stopped_by is not None:
            self._run.summary["stopped_by"] = run.stopped_by
        self._close(failed=False)

    def on_error(self, error: BaseException) -> None:
        """End the run as one that failed, by its exit code."""
        self._close(failed=True)

    def _close(self, *, failed: bool) -> None:
        if self._run is not None:
            self._run.finish(exit_code=int(failed))
        self._run = None
