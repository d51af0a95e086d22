"""The user's own functions by exact path: metrics, measures, corruptions."""

from collections.abc import Callable, Iterable
from typing import Any

from tepui.cli.importing import imported
from tepui.core.checks import require


def is_own(name: str) -> bool:
    """Return whether a name is the path of something of one's own, not one of tepui's.

    Example:
        >>> is_own("fog"), is_own("mine.salt")
        (False, True)
    """
    return "." in name


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
