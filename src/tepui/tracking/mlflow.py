"""A run's figures in MLflow."""

import time
from collections.abc import Mapping
from typing import Any, final

from tepui.core.extras import extra
from tepui.tracking.figures import figures, flat
from tepui.tracking.identity import remember, remembered, run_name, shown
from tepui.training import Callback, EpochRecord, Run

TRACKER = "mlflow"
LONGEST_PARAMETER = 500  # characters, which every server takes


@final
class MLflow(Callback):
    """Log runs to MLflow: settings as parameters, figures as metrics of members.

    A run that is resumed goes on in the same run of MLflow.

    Args:
        experiment: The experiment; made if there is none of this name.
        uri: Where MLflow keeps it, such as ``sqlite:///mlflow.db`` or a server's
            address; by default as MLflow is set (``MLFLOW_TRACKING_URI``).
        name: What runs are called; by default after the run folder.

    Raises:
        ImportError: If MLflow is not installed; the message is the remedy.
    """

    def __init__(
        self,
        experiment: str = "tepui",
        *,
        uri: str | None = None,
        name: str | None = None,
    ) -> None:
        extra("mlflow", "track")
        self._experiment, self._uri, self._name = experiment, uri, name
        self._client: Any = None
        self._run: str | None = None

    def on_start(self, config: Mapping[str, Any]) -> None:
        """Begin a run of MLflow, or go on with the one that was begun before."""
        mlflow = extra("mlflow", "track")
        self._client = mlflow.MlflowClient(tracking_uri=self._uri)
        self._run = remembered(config, TRACKER)
        if self._run is not None:
            self._client.update_run(self._run, status="RUNNING")
            return
        name = self._name or run_name(config)
        begun = self._client.create_run(self._experiment_id(), run_name=name)
        self._run = str(begun.info.run_id)
        remember(config, TRACKER, self._run)
        for parameter, text in flat(shown(config)).items():
            short = text[:LONGEST_PARAMETER]
            self._client.log_param(self._run, parameter, short)

    def on_epoch(self, record: EpochRecord) -> None:
        """Log the figures of an epoch."""
        metric, now = extra("mlflow.entities", "track").Metric, round(time.time() * 1e3)
        metrics = [
            metric(name, value, now, record.epoch)
            for name, value in figures(record).items()
        ]
        self._client.log_batch(self._run, metrics=metrics)

    def on_end(self, run: Run) -> None:
        """End the run of MLflow, saying who stopped it early if somebody did."""
        if run.stopped_by is not None:
            self._client.set_tag(self._run, "stopped_by", run.stopped_by)
        self._close("FINISHED")

    def on_error(self, error: BaseException) -> None:
        """End the run of MLflow as one that failed."""
        self._close("FAILED")

    def _experiment_id(self) -> str:
        error = extra("mlflow.exceptions", "track").MlflowException
        found = self._client.get_experiment_by_name(self._experiment)
        if found is None:
            try:
                return str(self._client.create_experiment(self._experiment))
            except error:  # another process made it meanwhile
                found = self._client.get_experiment_by_name(self._experiment)
                if found is None:
                    raise
        return str(found.experiment_id)

    def _close(self, status: str) -> None:
        if self._run is not None:
            self._client.set_terminated(self._run, status)
        self._client = self._run = None
