"""Importing what a user names by its dotted path, as ``python -m`` would find it."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def find_in_this_folder() -> None:
    """Make modules in the current folder importable."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def imported(option: str, path: str, kind: str) -> Any:
    """Import what an option names by its path.

    Example:
        >>> imported("--metrics", "tepui.metrics.aurc", "functions").__name__
        'aurc'
        >>> imported("--metrics", "tepui.nothing", "functions")
        Traceback (most recent call last):
        ValueError: --metrics must name functions that can be imported, got \
'tepui.nothing' (module 'tepui' has no attribute 'nothing')
    """
    find_in_this_folder()
    module, _, name = path.rpartition(".")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"{option} must name {kind} that can be imported, got {path!r} ({error})"
        ) from error
    except (ValueError, OSError, SystemExit) as error:
        raise ValueError(
            f"{option} must name {kind} that can be imported, but {module} ends in an "
            f"error: {error}; what a script does, beside what it defines, belongs "
            'under if __name__ == "__main__"'
        ) from error
