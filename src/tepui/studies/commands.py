"""The commands that made a comparison: what repeats it, step by step.

A comparison that went on was begun by another command than the one that wrote its table
last, which alone repeats nothing.
"""

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tepui.studies.comparison import FILE, Comparison, read_comparison
from tepui.training.run_folder import RunFolder

COMMANDS = "commands"  # in a comparison's environment, beside that of the last one


def in_order(commands: Iterable[str]) -> list[str]:
    """Return each command once, those first that do not go on with something.

    Example:
        >>> in_order(["do --resume", "do --epochs 3", "do --resume"])
        ['do --epochs 3', 'do --resume']
    """
    return sorted(dict.fromkeys(commands), key=_goes_on)


def commands_of(comparison: Comparison, folder: str | Path) -> list[str]:
    """Return the commands that made a comparison, in order, each once.

    Args:
        comparison: The comparison.
        folder: Where it lies; of one that does not name its commands, the runs there
            say by which they began.
    """
    recorded = comparison.environment.get(COMMANDS)
    if recorded is not None:
        return [*recorded]
    runs = [RunFolder(Path(folder) / each.folder) for each in comparison.ensembles()]
    environments = [run.recorded()["environment"] for run in runs if run.started]
    last = comparison.environment.get("command", "")
    found = [each.get("command", "") for each in environments]
    programs = {"tepui", _program(last)}  # and no worker of a cluster
    by_them = [command for command in found if _program(command) in programs]
    return in_order(filter(None, [*by_them, last]))


def with_commands(
    comparison: Comparison, folder: Path, before: Iterable[str]
) -> dict[str, Any]:
    """Return a comparison's environment with the commands before it, and of its runs.

    Args:
        comparison: The comparison, as the last command made it.
        folder: Where it lies.
        before: What :func:`commands_before` said before the command wrote anything.
    """
    commands = in_order([*before, *commands_of(comparison, folder)])
    return {**comparison.environment, COMMANDS: commands}


def commands_before(folder: Path) -> list[str]:
    """Return the commands of what is to go on in a folder, none if nothing ended."""
    there = (folder / FILE).is_file()
    return commands_of(read_comparison(folder), folder) if there else []


def facts_of(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return versions and hardware of an environment, without its commands."""
    return {k: v for k, v in environment.items() if k not in ("command", COMMANDS)}


def _program(command: str) -> str:
    return command.partition(" ")[0]


def _goes_on(command: str) -> bool:
    try:
        words = shlex.split(command)
    except ValueError:  # of a record that is no command
        return False
    return any(word.partition("=")[0] == "--resume" for word in words)
