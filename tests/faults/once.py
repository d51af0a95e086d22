"""Folders that are made once, by whichever process needs them first."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return a folder that a function fills, made if it is not there.

    Processes may need it at the same time; of one that fails nothing stays.
    """
    if not folder.exists():
        own = folder.with_name(f"{folder.name} of {os.getpid()}")
        own.mkdir(parents=True)
        try:
            make(own)
            with suppress(OSError):  # another process was faster
                own.rename(folder)
        finally:
            shutil.rmtree(own, ignore_errors=True)
    return folder
