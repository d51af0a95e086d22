"""The user's own functions by exact path: ``--metrics``, ``--measures``.

Naming a function is a request to run it, so it counts only where a person wrote it: on
the command line. In a configuration file, which may come from anybody, it is refused.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from tepui.cli.importing import imported
from tepui.cli.parsing import class_names, options_of
from tepui.core.checks import require


def check_written(option: str, paths: Iterable[str], words: Sequence[str]) -> None:
    """Raise if a path was not written on the command line itself.

    Example:
        >>> words = ["evaluate", "run", "--config", "run.yaml"]
        >>> check_written("--metrics", ["mine.margin"], words)
        Traceback (most recent call last):
        ValueError: --metrics must be written on the command line, not in a file, got \
'mine.margin'
    """
    values = [value for name, value in options_of(words) if name == option]
    written = {*chain.from_iterable(class_names(option, value) for value in values)}
    for path in paths:
        rule = "be written on the command line, not in a file"
        require(path in written, option, rule, path)


def own_functions(option: str, paths: Iterable[str]) -> dict[str, Callable[..., Any]]:
    """Import functions by their dotted paths; their names are those of the functions.

    Example:
        >>> list(own_functions("--metrics", ["tepui.metrics.aurc"]))
        ['aurc']
    """
    functions: dict[str, Callable[..., Any]] = {}
    for path in paths:
        module, _, name = path.rpartition(".")
        rule = "name functions by their paths, such as mypackage.my_function"
        require(bool(module) and name.isidentifier(), option, rule, path)
        require(name not in functions, option, "name each function once", name)
        functions[name] = imported(option, path, "functions")
        function = callable(functions[name]) and not isinstance(functions[name], type)
        require(function, option, "name a function, not a class or a value", path)
    return functions
