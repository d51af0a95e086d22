"""What a command was asked for, as the folder of its run keeps and remembers it.

Values are kept in their written form. Of what is read there only tepui's own classes
are built; code of one's own is never imported for a folder's sake.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

from tepui.cli.config import OF_ONE_COMMAND
from tepui.cli.further import ANEW, KINDS, last_of_each
from tepui.cli.values import Text
from tepui.core.names import PLACES as NAMES
from tepui.core.provenance import masked
from tepui.core.spec import written
from tepui.core.storage import write_document
from tepui.data.sources import PLACES
from tepui.training import Callback
from tepui.training.run_folder import OPTIONS, OPTIONS_KIND, recorded_options


@dataclass(frozen=True)
class Asked:
    """The options of a command by name, as they were given."""

    command: str
    options: Mapping[str, Any]

    def document(self) -> dict[str, Any]:
        """Return them as they are kept: found from anywhere, without secrets."""
        kept = {
            name: _kept(value)
            for name, value in self.options.items()
            if name not in OF_ONE_COMMAND and value not in (None, [], {})
        }
        if "set" in kept:
            words = last_of_each(self.options["set"])
            kept["set"] = {n: _setting(n, t) for n, t in words.items() if n not in ANEW}
        return {"command": self.command, "options": masked(kept)}


@final
class Keeping(Callback):
    """Writes into a folder what was asked for, before the first step."""

    def __init__(self, folder: Path, asked: Asked) -> None:
        self._folder, self._asked = folder, asked

    def on_start(self, config: Mapping[str, Any]) -> None:
        """Write it."""
        self.keep()

    def keep(self) -> None:
        """Write it."""
        write_document(self._folder / OPTIONS, OPTIONS_KIND, self._asked.document())


def methods_with_earlier(asked: Asked, folder: Path) -> Asked:
    """Return what was asked for, with the methods that a comparison has already.

    Resumed by what is kept there, it shows all of them. Of one class with other
    arguments only what was asked for stays, since names in the table would change.
    """
    earlier: list[str] = recorded_options(folder).get("methods", [])
    now = [placed(text) for text in asked.options["methods"]]
    every = list(dict.fromkeys([*earlier, *now]))
    names = [text.partition("(")[0] for text in every]
    methods = every if len({*names}) == len(names) else now
    return Asked(asked.command, {**asked.options, "methods": methods})


def _kept(value: Any) -> Any:
    if isinstance(value, Text):
        if value.kind in NAMES:
            return placed(value)
        return str(Path(value).absolute()) if Path(value).is_dir() else str(value)
    if isinstance(value, Mapping):
        return [f"{name}={_kept(item)}" for name, item in value.items()]
    if isinstance(value, list | tuple):
        return [_kept(item) for item in value]
    if isinstance(value, Path):
        return str(value.absolute() if value.exists() else value)
    return value


def _setting(name: str, text: Text) -> str:
    """Return the value of a setting as a file holds it."""
    if text in ("None", "none") or name not in KINDS:
        return str(_kept(text) if name in ("extractor", "branch_from") else text)
    return placed(Text(text, KINDS[name], text.typed))


def placed(text: Text) -> str:
    """Return a value as a file holds it: quoted, and found from anywhere."""
    value = text.read()
    if not isinstance(value, partial):
        return written(value) if "(" in text else str(text)
    given = {
        name: str(Path(item).expanduser().absolute()) if name in PLACES else item
        for name, item in value.keywords.items()
    }
    return written(partial(value.func, **given))


def said_again(**options: Text | Sequence[Text] | None) -> str:
    """Return those options that the next command about a run needs as well.

    They name code of one's own, which no folder brings; each begins with a blank.
    """
    words = []
    for option, given in options.items():
        texts = [given] if isinstance(given, Text) else given or ()
        if not all(text.is_known() for text in texts):
            words.append(f" --{option} {' '.join(map(shlex.quote, texts))}")
    return "".join(words)


def in_options(error: ValueError, run: Path) -> ValueError:
    """Return an error of loading a run in words of the command line.

    Another one is returned as it is.
    """
    asked, _, rest = str(error).partition(" must be given: ")
    option = {"factory": "model", "extractor": "extractor"}.get(asked)
    if option is None or not rest:
        return error
    named = recorded_options(run).get(option, "mypackage.make_net")
    named = shlex.join(named if isinstance(named, list) else [named])
    return ValueError(f"--{option} must be given, such as --{option} {named}: {rest}")
