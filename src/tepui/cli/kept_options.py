"""The options of a run or a comparison, kept in its folder as ``--config`` reads them.

It is what ``--print-config`` prints, but for where the run lies, how far one command
took it and who trains, with places that are found from anywhere and without secrets.
When the run is resumed, its options are read from there, by the parser that reads any
other file.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, final

import yaml

from tepui.cli.parsing import list_of, options_of
from tepui.cli.piped import OPTION
from tepui.cli.remembered import PLACES
from tepui.core.checks import require
from tepui.core.free_folder import is_free
from tepui.core.provenance import MASK, command_line, masked
from tepui.core.replacing import write_bytes
from tepui.training import Callback, ExecutionSpec
from tepui.training.run_folder import KEPT_OPTIONS

# What is said anew each time a run is continued.
OF_ONE_COMMAND = (
    *("out", "resume", "stop_after", "quiet", "dry_run"),
    *("executor", "ray", "slurm"),
)
# What says where and how, and not what, is trained.
_EXECUTION = (
    *(item.name for item in fields(ExecutionSpec)),
    *("at_once", "threads", "retries"),
)
_RUNS = ("branch_from", "extractor")
_COMMANDS = ("train", "compare")


def kept_text(begins: str, printed: str) -> str:
    r"""Return a printed configuration as a run folder keeps it.

    Args:
        begins: Its first line, the command that reads it.
        printed: All options.

    Example:
        >>> kept_text("# tepui train --config FILE\n", "epochs: 3\nout: runs/a\n")
        '# tepui train --config FILE\nepochs: 3\n'
    """
    options: dict[str, Any] = yaml.safe_load(printed)
    kept = {n: value for n, value in options.items() if n not in OF_ONE_COMMAND}
    kept |= {name: _absolute(kept[name]) for name in _RUNS if name in kept}
    again = command_line(shlex.split(begins.removeprefix("# ")))
    return f"# {again}\n{yaml.safe_dump(masked(_with_places(kept)), sort_keys=False)}"


def with_kept(words: Sequence[str]) -> list[str]:
    """Return the words of a command that resumes a run, with the run's own options.

    What is written on the command line counts before them. A file of options that is
    written there takes their place, and so does what adds to a list: to the run's own
    it would be added again. Where nothing lies and nothing is written of what to
    train, the name of the folder is taken for a mistake, not for the wish to train the
    defaults.
    """
    pairs = dict(options_of(words))
    resumes = words[0] in _COMMANDS and pairs.get("--resume", "").lower() == "true"
    other = OPTION in pairs or any(list_of(name) != name for name in pairs)
    if not resumes or other or "--out" not in pairs:
        return list(words)
    folder = Path(pairs["--out"])
    said = {name.removeprefix("--").partition(".")[0] for name in pairs}
    alone = said <= {*OF_ONE_COMMAND, *_EXECUTION}
    rule = "be the folder of what shall go on, or what to train must be given to begin"
    require(not (alone and is_free(folder)), "--out", rule, str(folder))
    file = folder / KEPT_OPTIONS
    ours = _is_ours(file, words[:1])
    return [words[0], OPTION, str(file), *words[1:]] if ours else list(words)


def check_none_masked(options: Mapping[str, Any]) -> None:
    """Refuse options that hold the mask of a secret instead of the secret itself."""
    for name, value in _flat(options):
        rule = "be written on the command line, since run folders keep no secrets"
        hidden = isinstance(value, str) and MASK in value
        require(not hidden, f"--{name.replace('.init_args', '')}", rule, value)


@final
class Keeping(Callback):
    """Writes into a folder how its run is trained, before the first step.

    Args:
        folder: The folder.
        text: The options of the run, as :func:`kept_text` returns them.
        record: Writes down what else is remembered of them.
    """

    def __init__(self, folder: Path, text: str, record: Callable[[], None]) -> None:
        self._folder, self._text, self._record = folder, text, record

    def on_start(self, config: Mapping[str, Any]) -> None:
        """Write it."""
        self.keep()

    def keep(self) -> None:
        """Write it, unless somebody else's file has that name."""
        self._record()
        file = self._folder / KEPT_OPTIONS
        if file.exists() and not _is_ours(file):
            return
        # A file of options is read in the encoding of the machine.
        write_bytes(file, self._text.encode("ascii", "backslashreplace"))


def _is_ours(file: Path, commands: Sequence[str] = _COMMANDS) -> bool:
    """Return whether a file is one that these commands keep their options in."""
    begins = tuple(f"# tepui {command} ".encode() for command in commands)
    return file.is_file() and file.read_bytes().startswith(begins)


def _with_places(value: Any, name: str = "") -> Any:
    """Return options whose files and folders are found from anywhere."""
    if isinstance(value, Mapping):
        return {key: _with_places(item, key) for key, item in value.items()}
    return _absolute(value) if name in PLACES else value


def _absolute(value: Any) -> Any:
    """Return where a file or folder lies, as it is found from anywhere."""
    there = isinstance(value, str) and Path(value).exists()
    return str(Path(value).absolute()) if there else value


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every single value with its name, those of lists too."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _flat(item, name)
    else:
        yield name, value
