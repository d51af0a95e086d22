"""The options of a run, kept in its folder as a file that ``--config`` reads again.

It is what ``--print-config`` prints, but for where the run lies and how far one command
took it, with places that are found from anywhere and without secrets. When the run is
resumed, its options are read from there, by the parser that reads any other file.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import yaml

from tepui.cli.parsing import list_of, options_of
from tepui.cli.piped import OPTION
from tepui.cli.remembered import PLACES
from tepui.core.provenance import command_line, masked
from tepui.core.replacing import write_bytes
from tepui.training import Callback
from tepui.training.run_folder import KEPT_OPTIONS

# What is said anew each time a run is continued.
OF_ONE_COMMAND = ("out", "resume", "stop_after", "quiet")
_RUNS = ("branch_from", "extractor")


def kept_text(printed: str) -> str:
    r"""Return a printed configuration as a run folder keeps it.

    Example:
        >>> kept_text("# tepui train --config FILE\nepochs: 3\nout: runs/a\n")
        '# tepui train --config FILE\nepochs: 3\n'
    """
    first, _, rest = printed.partition("\n")
    options: dict[str, Any] = yaml.safe_load(rest)
    kept = {n: value for n, value in options.items() if n not in OF_ONE_COMMAND}
    again = command_line(shlex.split(first.removeprefix("# ")))
    return f"# {again}\n{yaml.safe_dump(masked(_found(kept)), sort_keys=False)}"


def with_kept(words: Sequence[str]) -> list[str]:
    """Return the words of a command that resumes a run, with the run's own options.

    What is written on the command line counts before them. A file of options that is
    written there takes their place, and so does what adds to a list: to the run's own
    it would be added again.
    """
    pairs = dict(options_of(words))
    resumes = words[0] == "train" and pairs.get("--resume", "").lower() == "true"
    other = OPTION in pairs or any(list_of(name) != name for name in pairs)
    file = Path(pairs.get("--out", ""), KEPT_OPTIONS)
    if not resumes or other or not file.is_file():
        return list(words)
    return [words[0], OPTION, str(file), *words[1:]]


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
        self._record()
        # A file of options is read in the encoding of the machine.
        text = self._text.encode("ascii", "backslashreplace")
        write_bytes(self._folder / KEPT_OPTIONS, text)


def _found(value: Any, name: str = "") -> Any:
    """Return options whose files, folders and runs are found from anywhere."""
    if isinstance(value, Mapping):
        return {key: _found(item, key) for key, item in value.items()}
    is_run = name in _RUNS and value is not None and Path(value).is_dir()
    if is_run or (name in PLACES and isinstance(value, str)):
        return str(Path(value).absolute())
    return value
