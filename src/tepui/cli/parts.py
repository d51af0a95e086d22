"""The training and the test part of a data set named on the command line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from torch.utils.data import Dataset

from tepui.checks import require
from tepui.data import Digits
from tepui.storage import read_json

Data = Callable[[], Dataset[Any]]


def part(data: Data, *, train: bool) -> Dataset[Any]:
    """Return one part of a data set.

    Args:
        data: What the command line built: a data set's class with its options set.
        train: The training part if true, else the test part.

    Returns:
        The data set.
    """
    return cast(Callable[..., Dataset[Any]], data)(train=train)


def tested_part(data: Data | None, run: Path) -> Dataset[Any]:
    """Return the test part of the data set a run is evaluated on.

    Args:
        data: What the command line built; None where it names nothing.
        run: The folder of the run.

    Returns:
        The data set; digits, the default of all commands, only for a run on digits.

    Raises:
        ValueError: If nothing is named for a run on other data.
    """
    if data is None:
        file = run / "run.json"
        known = read_json(file)["config"]["data"]["class"] if file.is_file() else None
        require(
            known == Digits.__name__,
            "--data",
            f"be given, since {run} was not trained on Digits"
            if known is None
            else f"be given, since {run} was trained on {known}",
            None,
        )
    return part(Digits if data is None else data, train=False)
