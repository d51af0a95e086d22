"""``tepui completion``: what a shell needs to complete commands and options.

The script is written once and knows all options by heart: importing torch for every
press of a key would take seconds.
"""

from argparse import Action, ArgumentParser
from collections.abc import Iterator
from typing import Any, Literal

from tepui.cli.admission import admitting, listed
from tepui.cli.console import console
from tepui.cli.parsing import FLAGS, known_names
from tepui.core.extras import extra

EXAMPLE = 'eval "$(tepui completion bash)"'
Shell = Literal["bash", "zsh", "tcsh"]


def completion(shell: Shell = "bash") -> None:
    """Print a script that completes commands, options and names in a shell.

    Args:
        shell: Which shell. The line of the example goes into ~/.bashrc; for zsh, tepui
            completion zsh > _tepui writes a file for a folder of $fpath. The extra
            completion installs what is needed.
    """
    from tepui.cli.main import build_parser  # which knows this command, too

    with admitting(listed()):
        console().out(script(build_parser(), shell), highlight=False)


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
    if action.option_strings and action.option_strings[0] in FLAGS:
        action.nargs, action.choices = 0, None
    elif names is not None:
        action.choices = names
    elif not action.choices:
        action.complete = file  # type: ignore[attr-defined] # for shtab
    action.option_strings = [
        option.replace("_", "-")
        for option in action.option_strings
        if not option.endswith("+")
    ]
