"""Words of a command that are no options, wherever they were written."""

from collections.abc import Sequence
from itertools import pairwise

# Options that a command takes without a value.
BARE = ("--help", "--version", "--print_config")


def with_words_first(arguments: Sequence[str]) -> list[str]:
    """Return the words with those that belong to no option right after the command.

    Every option is followed by one value, as
    :func:`tepui.cli.parsing.normalized` writes them.

    Example:
        >>> with_words_first(["predict", "runs/sam", "--out", "a.csv", "new.csv"])
        ['predict', 'runs/sam', 'new.csv', '--out', 'a.csv']
    """
    if not arguments or arguments[0].startswith("-"):
        return list(arguments)
    command, *rest = arguments
    values = [_takes_next(before) for before, _ in pairwise([command, *rest])]
    alone = [
        not word.startswith("-") and not value
        for word, value in zip(rest, values, strict=True)
    ]
    parted = [*zip(rest, alone, strict=True)]
    words = [word for word, is_alone in parted if is_alone]
    return [command, *words, *(word for word, is_alone in parted if not is_alone)]


def _takes_next(word: str) -> bool:
    """Return whether the next word is the value of this one."""
    return word.startswith("--") and "=" not in word and word not in BARE
