"""Options from a file: one that ``--config`` names, or that of a run that goes on.

A file holds the options of a command by name, with values as they are typed: YAML, or
``options.json`` as a run keeps it. What is typed counts before it. Nothing in a file is
executed, and nothing of one's own named there is reached.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from cyclopts import ArgumentCollection, Token

from tepui.core.checks import one_of, require
from tepui.core.limits import check_regular
from tepui.core.provenance import MASK

# What is said anew each time a run goes on.
OF_ONE_COMMAND = ("out", "resume", "config", "overwrite")


def from_files(_: Any, commands: Sequence[str], arguments: ArgumentCollection) -> None:
    """Give the options of files to the arguments that nobody typed."""
    asked = {each.name.removeprefix("--"): each for each in arguments}
    typed = {name: each.tokens[-1].value for name, each in asked.items() if each.tokens}
    files = [typed["config"]] if "config" in typed else []
    if "resume" in typed and "config" in asked and not files:
        from tepui.core.lease import is_free
        from tepui.core.storage import read_document
        from tepui.training.run_folder import OPTIONS

        rule = "be given to resume a run"
        require("out" in typed, "out", rule, None)
        kept = Path(typed["out"], OPTIONS)
        said = {*typed} - {"out", "resume", "set", "methods"}
        rule = "be the folder of what shall go on, or say what to train to begin"
        require(bool(said) or not is_free(kept.parent), "out", rule, typed["out"])
        files = [str(kept)] if kept.is_file() else []
        if files:
            read_document(kept, "options")  # which raises if it is damaged
    for file in files:
        for name, value in options_in(file, commands[-1]).items():
            one_of(f"option in {file}", name, sorted({*asked} - {*OF_ONE_COMMAND}))
            argument, words = asked[name], _words(name, value, file)
            if argument.tokens and name != "set":
                continue
            # What is typed of a setting comes after, and so counts.
            argument.tokens[:0] = [
                Token(keyword=f"--{name}", value=word, source=file, index=number)
                for number, word in enumerate(words)
            ]


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Reads no aliases, of which a short file can make a boundless value."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("an alias (*) stands in it")
        return super().compose_node(parent, index)


def options_in(file: str, command: str) -> dict[str, Any]:
    """Return the options that a file holds for a command.

    Raises:
        ValueError: If it holds no options, or those of another command.
    """
    check_regular(Path(file))
    with Path(file).open("rb") as opened:
        try:
            options = yaml.load(opened, _Loader)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            said = " ".join(str(error).split())
            raise ValueError(f"config must be YAML, got {file}: {said}") from error
    rule = "hold options by name, such as method: SAM(rho=0.1)"
    plain = isinstance(options, dict) and all(isinstance(name, str) for name in options)
    require(plain, "config", rule, file)
    if {"command", "options"} <= options.keys():
        rule = f"be that of tepui {command}"
        require(options["command"] == command, "config", rule, options["command"])
        options = options["options"]
    return dict(options)


def _words(name: str, value: Any, file: str) -> list[str]:
    """Return a value of a file in the words that somebody would type."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        pairs = [f"{key}={_word(item)}" for key, item in value.items()]
        return [word for pair in pairs for word in _words(name, pair, file)]
    if isinstance(value, list):
        return [word for item in value for word in _words(name, item, file)]
    word = _word(value)
    rule = "be typed, since folders keep no secrets"
    require(MASK not in word, name, rule, f"{word} in {file}")
    return [word]


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
