"""Options that come through a pipe: ``tepui … --print-config | tepui … --config -``."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tepui.core.checks import require

OPTION = "--config"
PIPES = ("-", "/dev/stdin")
LIMIT = 2**20  # characters
# How messages call it, and so the file that stands for it.
NAME = "the piped configuration"


@contextmanager
def piped(words: Sequence[str]) -> Iterator[list[str]]:
    """Give a file in the place of a pipe, which can be read only once.

    Example:
        >>> with piped(["train", "--config", "my.yaml"]) as words:
        ...     words
        ['train', '--config', 'my.yaml']
    """
    parted = [part for word in words for part in apart(word)]
    places = [
        place
        for place in range(1, len(parted))
        if parted[place - 1] == OPTION and parted[place] in PIPES
    ]
    if not places:
        yield list(words)
        return
    try:
        text = sys.stdin.read(LIMIT + 1)
    except UnicodeDecodeError as error:
        raise ValueError(f"{OPTION} must be text from a pipe, but: {error}") from error
    rule = "be written to the pipe by the command before it"
    require(bool(text.strip()), OPTION, rule, "nothing")
    require(len(text) <= LIMIT, OPTION, f"have at most {LIMIT} characters", "more")
    with TemporaryDirectory() as folder:
        file = Path(folder, NAME)
        # The bytes of the pipe, of which the parser makes text again.
        file.write_text(text, encoding=sys.stdin.encoding, errors=sys.stdin.errors)
        pairs = enumerate(parted)
        yield [str(file) if place in places else word for place, word in pairs]


def called(file: str) -> str:
    """Return what to call a configuration file: what was written, or a pipe.

    Example:
        >>> called("my.yaml"), called(f"/tmp/x/{NAME}")
        ('my.yaml', 'the piped configuration')
    """
    return NAME if Path(file).name == NAME else file


def apart(word: str) -> list[str]:
    """Return option and value where one word holds both.

    Example:
        >>> apart("--config=my.yaml"), apart("--epochs=3")
        (['--config', 'my.yaml'], ['--epochs=3'])
    """
    option, _, value = word.partition("=")
    return [option, value] if option == OPTION and value else [word]
