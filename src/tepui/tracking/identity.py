"""Which of a tracker's runs is which of ours."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tepui.core.storage import read_document, write_document
from tepui.training.run_folder import TRACKING

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
