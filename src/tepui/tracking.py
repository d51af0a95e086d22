"""Showing runs where one keeps them: TensorBoard, MLflow, Weights & Biases.

Each is a :class:`tepui.Callback`, given to ``callbacks`` or named by ``--set track=``.
Libraries are imported when they are used; the extra ``track`` installs them.
"""

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, final

from tepui.core.checks import require
from tepui.core.extras import extra
from tepui.core.spec import leaves
from tepui.core.storage import read_document, write_document
from tepui.training import Callback, EpochRecord, Run
from tepui.training.run_folder import TRACKING

__all__ = ["MLflow", "TensorBoard", "WandB"]

KIND = "tracking"


def shown(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a tracker shows of a configuration: not where files lie."""
    return {name: value for name, value in config.items() if name != "out"}


def run_name(config: Mapping[str, Any]) -> str:
    """Return what a run is called: the end of its folder's path, or its method.

    Example:
        >>> run_name({"out": "runs/digits/SAM/0"})
        'SAM/0'
        >>> run_name({"out": None, "method": {"class": "SAM"}})
        'SAM'
    """
    if config["out"] is None:
        return str(config["method"]["class"])
    return "/".join(Path(config["out"]).parts[-2:])


def remembered(config: Mapping[str, Any], tracker: str) -> str | None:
    """Return what a tracker called a run that is resumed; None if it is new to it."""
    known = _known(config).get(tracker)
    return None if known is None else str(known)


def remember(config: Mapping[str, Any], tracker: str, name: str) -> None:
    """Note in the run folder, if there is one, what a tracker calls the run."""
    if config["out"] is not None:
        known = _known(config) | {tracker: name}
        write_document(Path(config["out"]) / TRACKING, KIND, {"runs": known})


def _known(config: Mapping[str, Any]) -> dict[str, Any]:
    file = None if config["out"] is None else Path(config["out"]) / TRACKING
    if file is None or not file.exists():
        return {}
    return dict(read_document(file, KIND)["runs"])


PER_MEMBER = (
    *("loss", "learning_rate"),
    *("validation_loss", "validation_accuracy", "validation_rmse"),
)
OF_ALL = ("joint_loss", "samples_per_second")


def figures(record: EpochRecord) -> dict[str, float]:
    """Return the figures of an epoch, those of members by their numbers from 0.

    Example:
        >>> record = EpochRecord(0, (0.5, None), (0.1, 0.1), (), 1.0, 64.0)
        >>> figures(record)["loss/member 0"], "loss/member 1" in figures(record)
        (0.5, False)
    """
    found = {
        f"{name}/member {member}": value
        for name in PER_MEMBER
        for member, value in enumerate(getattr(record, name))
    }
    found |= {name: getattr(record, name) for name in OF_ALL}
    return {name: float(value) for name, value in found.items() if value is not None}


def flat(config: Mapping[str, Any]) -> dict[str, str]:
    """Return a configuration as text under plain names.

    Example:
        >>> flat({"method": {"class": "SAM", "rho": 0.1}, "seeds": [13], "<b>": None})
        {'method.class': 'SAM', 'method.rho': '0.1', 'seeds.0': '13', '_b_': 'None'}
    """
    return {re.sub(r"[^\w.-]", "_", n): str(value) for n, value in leaves(config)}


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

    def on_start(self, config: Mapping[str, Any]) -> None:
        """Note what was asked for; files are opened at the first epoch."""
        folder, out = self._folder, config["out"]
        rule = "be given where the run has no folder (out)"
        require(folder is not None or out is not None, "folder", rule, folder)
        self._place = Path(out) / "tensorboard" if folder is None else Path(folder)
        self._config = shown(config)

    def on_epoch(self, record: EpochRecord) -> None:
        """Write the figures of an epoch, and before the first what was asked for."""
        from torch.utils.tensorboard.writer import SummaryWriter

        if self._writer is None:
            self._writer = SummaryWriter(str(self._place))
            self._writer.add_text("config", _as_code(self._config))
        for name, value in figures(record).items():
            self._writer.add_scalar(name, value, record.epoch)
        self._writer.flush()

    def on_end(self, run: Run) -> None:
        """Close the event file."""
        self._close()

    def on_error(self, error: BaseException) -> None:
        """Close the event file."""
        self._close()

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


LONGEST_PARAMETER = 500  # characters, which every server takes


@final
class MLflow(Callback):
    """Log runs to MLflow: settings as parameters, figures as metrics of members.

    A run that is resumed goes on in the same run of MLflow.

    Args:
        experiment: The experiment; made if there is none of this name.
        uri: Where MLflow keeps it, such as ``sqlite:///mlflow.db`` or a server's
            address; by default as MLflow is set (``MLFLOW_TRACKING_URI``).

    Raises:
        ImportError: If MLflow is not installed; the message is the remedy.
    """

    def __init__(self, experiment: str = "tepui", *, uri: str | None = None) -> None:
        extra("mlflow", "track")
        self._experiment, self._uri = experiment, uri
        self._client: Any = None
        self._run: str | None = None

    def on_start(self, config: Mapping[str, Any]) -> None:
        """Begin a run of MLflow, or go on with the one that was begun before."""
        mlflow = extra("mlflow", "track")
        self._client = mlflow.MlflowClient(tracking_uri=self._uri)
        self._run = remembered(config, "mlflow")
        if self._run is not None:
            self._client.update_run(self._run, status="RUNNING")
            return
        where, name = self._experiment_id(), run_name(config)
        begun = self._client.create_run(where, run_name=name)
        self._run = str(begun.info.run_id)
        remember(config, "mlflow", self._run)
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
        found = self._client.get_experiment_by_name(self._experiment)
        if found is None:
            return str(self._client.create_experiment(self._experiment))
        return str(found.experiment_id)

    def _close(self, status: str) -> None:
        if self._run is not None:
            self._client.set_terminated(self._run, status)
        self._client = self._run = None


Mode = Literal["online", "offline", "disabled"]


@final
class WandB(Callback):
    """Log runs to Weights & Biases, figures over epochs.

    A run that is resumed goes on in the same run there.

    Args:
        project: The project.
        mode: ``"offline"`` keeps files to be sent later by ``wandb sync``; by default
            as the environment says (``WANDB_MODE``).

    Raises:
        ImportError: If the library is not installed; the message is the remedy.
    """

    def __init__(self, project: str = "tepui", *, mode: Mode | None = None) -> None:
        extra("wandb", "track")
        self._project, self._mode = project, mode
        self._run: Any = None

    def on_start(self, config: Mapping[str, Any]) -> None:
        """Begin a run, or go on with the one that was begun before."""
        known = remembered(config, "wandb")
        self._run = extra("wandb", "track").init(
            project=self._project,
            name=run_name(config),
            config=shown(config),
            mode=self._mode,
            id=known,
            resume=None if known is None else "allow",
            reinit="create_new",
        )
        remember(config, "wandb", str(self._run.id))
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
