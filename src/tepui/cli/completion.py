"""The script of ``tepui completion``, by which a shell completes what is typed.

The script is written once and knows all options by heart: importing torch for every
press of a key would take seconds.
"""

from argparse import Action, ArgumentParser
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from tepui.cli.known import known_names
from tepui.cli.parsing import FLAGS
from tepui.core.extras import extra

EXAMPLE = "tepui completion bash > ~/.tepui.bash"
Shell = Literal["bash", "zsh", "tcsh"]


def script(parser: ArgumentParser, shell: Shell) -> str:
    """Return the script for a shell, made of a parser that is not used again."""
    shtab: Any = extra("shtab", "completion")
    for command in _commands(parser):
        for action in command._actions:
            _complete(action, shtab.FILE)
    text: str = shtab.complete(parser, shell)
    return text


def _commands(parser: ArgumentParser) -> Iterator[ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action.choices, dict):
            yield from action.choices.values()


def _complete(action: Action, file: Any) -> None:
    """Let an option be written as it is typed, and say what its value may be."""
    names = known_names().get(next(iter(action.option_strings), ""))
    names = names or _words_of(getattr(action, "_typehint", None))
    if action.option_strings and action.option_strings[0] in FLAGS:
        action.nargs, action.choices = 0, None
    elif names:
        action.choices = names
    elif not action.choices:
        action.complete = file  # type: ignore[attr-defined] # for shtab
    action.option_strings = [
        option.replace("_", "-")
        for option in action.option_strings
        if not option.endswith("+")
    ]


def _words_of(kind: object) -> list[str]:
    """Return the words that a type consists of.

    Example:
        >>> _words_of(Literal["last", "best"] | None)
        ['last', 'best']
    """
    if get_origin(kind) is Literal:
        return [str(word) for word in get_args(kind)]
    return [word for part in get_args(kind) for word in _words_of(part)]
