"""In which configuration file a refused value stands."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from tepui.cli.expansion import config_text
from tepui.cli.parsing import options_of
from tepui.cli.piped import OPTION, called

HERE = Path()
_ABOUT = re.compile(r"(?:--)?([\w-]+)[\w.-]* must |tepui \w+ has no option ([\w-]+)")


def place_in_files(said: str, words: Sequence[str], folder: Path = HERE) -> str:
    """Return in which file the option stands that a message is about.

    Args:
        said: What is wrong, the option first.
        words: The words of the command. What is typed wins over files, and is seen.
        folder: Where the command was given; the parser reads a file in its own folder.

    Returns:
        The place as an addition to the message; empty if no file holds the option.
    """
    match = _ABOUT.match(said)
    if match is None:
        return ""
    key = (match[1] or match[2]).replace("-", "_")
    pairs = options_of(words)
    if any(option.partition(".")[0] == f"--{key}" for option, _ in pairs):
        return ""
    files = [file for option, file in pairs if option == OPTION]
    holding = [file for file in files if key in _keys(str(folder / file))]
    return f" (in {called(holding[-1])})" if holding else ""


@contextmanager
def told_with_place(words: Sequence[str]) -> Iterator[None]:
    """Add to what is refused in which file it stands.

    Raises:
        ValueError: What was raised inside, with the place.
    """
    try:
        yield
    except ValueError as error:
        place = place_in_files(str(error), words)
        if not place:
            raise
        raise ValueError(f"{error}{place}") from error


def _keys(file: str) -> set[str]:
    """Return the options of a file, in the form that a command has them in."""
    try:
        found = yaml.safe_load(config_text(file))
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return set()
    names = found if isinstance(found, Mapping) else ()
    return {str(name).partition(".")[0].replace("-", "_") for name in names}
