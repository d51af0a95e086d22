"""Where a command writes when it is not told."""

from itertools import count
from pathlib import Path

from tepui.core.checks import require


def folder_for(command: str, out: Path | None, resume: bool) -> Path:
    """Return the folder of a run: the one asked for, or the next free one.

    Args:
        command: The command's name.
        out: The folder asked for, if any.
        resume: Whether an old run is to be continued.

    Returns:
        ``out``, or ``runs/<command>-<number>``.

    Raises:
        ValueError: If a run is to be continued and no folder is named.
    """
    require(not resume or out is not None, "--out", "be given to resume a run", None)
    if out is not None:
        return out
    names = (Path("runs") / f"{command}-{number:03d}" for number in count(1))
    return next(path for path in names if not path.exists())


def require_free(folder: Path, resume: bool) -> None:
    """Raise if a new run would meet another one.

    Args:
        folder: The folder of the run.
        resume: Whether the run in it is to be continued.

    Raises:
        FileExistsError: If the folder holds something and nothing is continued.
    """
    if not resume and folder.exists() and any(folder.iterdir()):
        raise FileExistsError(
            f"{folder} is not empty; pass --resume to continue the run in it, or "
            "choose another folder"
        )
