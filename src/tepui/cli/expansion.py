"""How much a configuration file holds once its aliases are written out.

A few lines of YAML can stand for billions of values, or for a value inside itself.
"""

import math
from collections.abc import Iterable, Sequence
from locale import getpreferredencoding
from pathlib import Path

import yaml

from tepui.cli.parsing import options_of
from tepui.cli.piped import called
from tepui.core.checks import require

LIMIT = 100_000


def check_expansion(words: Sequence[str]) -> None:
    """Raise if a file that the command line names holds too many values.

    What cannot be read at all is left to the parser, which says so.
    """
    for option, file in options_of(words):
        if option == "--config":
            rule = f"hold at most {LIMIT} values, with what aliases stand for"
            require(expanded_size(file) <= LIMIT, option, rule, called(file))


def expanded_size(file: str) -> float:
    """Return the number of values in a file; infinite if one contains itself."""
    try:
        return _size(yaml.compose(config_text(file), yaml.SafeLoader), {}, ())
    except (OSError, ValueError, yaml.YAMLError):
        return 0
    except RecursionError:
        return math.inf


def config_text(file: str) -> str:
    """Return what a file holds, read in the parser's own encoding."""
    return Path(file).read_text(encoding=getpreferredencoding(False))


def _size(node: object, known: dict[int, float], above: Sequence[int]) -> float:
    if id(node) in above:
        return math.inf
    if id(node) not in known:
        inside = (*above, id(node))
        known[id(node)] = 1 + sum(_size(part, known, inside) for part in _parts(node))
    return known[id(node)]


def _parts(node: object) -> Iterable[object]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else ()
