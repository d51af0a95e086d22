"""What a command was asked for, as the folder of its run keeps and remembers it.

Values are kept in their written form. Of what is read there only tepui's own classes
are built; code of one's own is never imported for a folder's sake.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

from torch.utils.data import Dataset

from tepui.cli.config import OF_ONE_COMMAND
from tepui.cli.further import ANEW, KINDS, last_of_each
from tepui.cli.values import Text
from tepui.core.names import PLACES as NAMES
from tepui.core.provenance import masked
from tepui.core.spec import read, written
from tepui.core.storage import write_document
from tepui.studies.recorded_options import recorded_options
from tepui.training import Callback
from tepui.training.run_folder import OPTIONS

KIND = "options"
# Arguments that name places, which are found from anywhere once they are absolute.
PLACES = ("path", "root")


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
        write_document(self._folder / OPTIONS, KIND, self._asked.document())


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


def remembered(run: Path, option: str) -> Callable[..., Dataset[Any]] | None:
    """Return the data set that an option of a run's command named, if it did.

    Raises:
        ValueError: If it is of the user's own.
    """
    text = recorded_options(run).get(option)
    if text is None or isinstance(text, float | int):
        return None
    if not Text(text, "data", typed=True).is_known():
        raise ValueError(
            f"{option} must be given, since {run} belongs to a data set of your own: "
            f"--{option} {shlex.quote(text)}"
        )
    made_by: Callable[..., Dataset[Any]] = read(text, "data")
    return made_by


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


def kind_of(made_by: Callable[..., Any] | None) -> Any:
    """Return the class or function that makes an object."""
    return made_by.func if isinstance(made_by, partial) else made_by


def options_given(made_by: Callable[..., Any] | None) -> dict[str, Any]:
    """Return the arguments that were written of what makes an object."""
    return made_by.keywords if isinstance(made_by, partial) else {}
