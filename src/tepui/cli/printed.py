"""How a printed configuration is read again.

A file names no code of the user's own by itself (see :mod:`tepui.cli.written`). One
that was printed begins with the command that reads it, with what must stand there.
"""

import shlex
from collections.abc import Collection, Sequence
from itertools import takewhile

from tepui.cli.admission import is_path, listed
from tepui.cli.parsing import OF_FUNCTIONS, list_of, options_of
from tepui.papers.recipe import is_module

FILE = "FILE"
# Options whose values count only where a person wrote them.
WRITTEN = (*OF_FUNCTIONS, "--extractor", "--ray.address")


def first_line(words: Sequence[str], own: Collection[str]) -> str:
    r"""Return the command that reads a configuration printed from some words.

    Args:
        words: The words.
        own: The paths of the user's own classes and functions among them.

    Example:
        >>> first_line(["evaluate", "run", "--metrics", "[mine.margin]"], ())
        "# tepui evaluate --config FILE --metrics '[mine.margin]'\n"
    """
    again = [words[0], *_modules(words), "--config", FILE, *_own_options(words, own)]
    in_one_line = (" ".join(word.splitlines()) for word in again)
    return f"# tepui {shlex.join(in_one_line)}\n"


def _modules(words: Sequence[str]) -> list[str]:
    """Return the recipes of one's own after a command, which are modules."""
    if words[0] not in ("reproduce", "sweep"):
        return []
    first = takewhile(lambda word: not word.startswith("--"), words[1:])
    return [word for word in first if is_module(word)]


def _own_options(words: Sequence[str], own: Collection[str]) -> list[str]:
    """Return the options that name code of the user's own, with all their values."""
    pairs, named = options_of(words), {*WRITTEN}
    for option, value in pairs:
        makes_models = option == "--model" and is_path(value) and value not in listed()
        if makes_models or any(path in value for path in own):
            named.add(list_of(option))
    return [word for pair in pairs if list_of(pair[0]) in named for word in pair]
