"""The ``tepui`` command: what is typed, read by cyclopts from the commands' signatures.

Help, versions and mistakes are answered before torch is loaded.
"""

import os
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path

from cyclopts import App, CycloptsError, Group, Parameter

from tepui.cli import config
from tepui.cli.console import plain_warnings
from tepui.core.checks import require
from tepui.core.processes import place_of_environment
from tepui.core.text import printable
from tepui.core.version import __version__

GREETING = """\
tepui trains deep ensembles whose members are flat and different from each other,
and says when not to trust them.

  tepui compare                     train and compare three methods on digits
  tepui train --out runs/mine       train one ensemble
  tepui evaluate runs/mine          score it on clean, corrupted and unfamiliar data
  tepui predict runs/mine PHOTOS    predict files, with confidence and uncertainty

Own images: tepui train --data 'ImageFolder(path=FOLDER)'
Own table:  tepui train --data 'Table(path=FILE.csv, target=COLUMN)'
All commands: tepui --help. One of them: tepui train --help.
"""
# Each command is the function of a module of its name, loaded when it is needed.
GROUPS = {
    "Your data": "train compare calibrate evaluate predict report export",
    "Look inside": "measure verify settings data corrupt sweep distil",
    "Research": "reproduce claims theory",
}
# Commands whose work torchrun's processes share.
OVER_RANKS = ("train", "compare", "evaluate")
# Options whose arguments Python calls otherwise.
OTHERWISE = {"seed": "--seeds", "factory": "--model"}
LESS = "lower --set batch_size=N, or take smaller inputs or models"


def build() -> App:
    """Return all commands, in groups."""
    app = App(
        name="tepui",
        help="Deep ensembles whose members are flat and different.",
        version=__version__,
        version_format="plaintext",
        default_parameter=Parameter(negative=(), show_env_var=False),
        help_format="markdown",
        result_action="return_value",
        suppress_keyboard_interrupt=False,
        config=config.from_files,
    )
    for number, (title, names) in enumerate(GROUPS.items()):
        group = Group(title, sort_key=number)
        for name in names.split():
            app.command(f"tepui.cli.{name}:{name}", name=name, group=group)
    app.register_install_completion_command(group=Group("Completion", sort_key=9))
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a user's mistake ends in a message, not in a traceback."""
    words = [*(sys.argv[1:] if arguments is None else arguments)]
    if not words:
        sys.stdout.write(GREETING)
        return
    try:
        _check_ranks(words[0])
        with plain_warnings():
            app = build()
            if words[0] in app.help_flags:  # which says what each command is
                [*map(app.__getitem__, app)]
            app(words, exit_on_error=False, print_error=False)
    except Exception as error:
        if (said := _said(error)) is None:
            raise
        rank = os.environ.get("RANK", "0")
        speaker = "tepui" if rank == "0" else f"tepui (rank {rank})"
        sys.stderr.write(f"{speaker}: {printable(said, lines=True)}\n")
        raise SystemExit(getattr(error, "status", 2)) from error
    except KeyboardInterrupt as interrupt:
        if place_of_environment().rank == 0:
            sys.stderr.write("tepui: interrupted\n")
        raise SystemExit(130) from interrupt


def _said(error: Exception) -> str | None:
    """Return what a user did wrong, in words of what was typed; else nothing."""
    said = str(error).strip()
    # Python, numpy, and torch on a GPU name it; on a CPU it is a RuntimeError.
    if "Memory" in type(error).__name__ or "allocate memory" in said:
        return f"out of memory ({said.splitlines()[0] if said else 'no more'}); {LESS}"
    if isinstance(error, CycloptsError):
        where = " ".join(("tepui", *(error.command_chain or ())))
        return f"{said}\n{where} --help shows all options"
    ours = type(error).__module__.startswith("tepui.")
    if not ours and (place := _own_place(error)):
        return f"{place}: {type(error).__name__}: {said}"
    if not (ours or isinstance(error, ValueError | OSError | ImportError)):
        return None
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.strerror}: {error.filename}"
    argument, must, rest = said.partition(" must ")
    return f"{OTHERWISE.get(argument, argument)}{must}{rest}"


def _own_place(error: Exception) -> str:
    """Return where in the user's own code an error arose, if it did there."""
    paths = sysconfig.get_paths()
    installed = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    roots = [Path(__file__).parents[1], *(Path(root).resolve() for root in installed)]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename).resolve()
        if file.exists() and not any(map(file.is_relative_to, roots)):
            return f"{frame.filename}, line {frame.lineno}, in {frame.name}"
    return ""


def _check_ranks(name: str) -> None:
    """Refuse commands that would do the same work in every process of torchrun."""
    size = place_of_environment().size
    rule = (
        f"be {', '.join(OVER_RANKS[:-1])} or {OVER_RANKS[-1]} under torchrun ({size} "
        f"ranks); start tepui {name} once, without it"
    )
    require(size == 1 or name in OVER_RANKS, "command", rule, name)
