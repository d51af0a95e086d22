"""``--metrics PACKAGE.FUNCTION``: metrics of the user's own, by exact path.

Naming a function is a request to run it, so it counts only where a person wrote it: on
the command line. In a configuration file, which may come from anybody, it is refused.
"""

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path

from tepui.core.checks import require
from tepui.evaluation.custom_metrics import Metric

OPTION = "--metrics"


def check_written(paths: Iterable[str], words: Sequence[str]) -> None:
    """Raise if a path does not stand on the command line itself.

    Example:
        >>> check_written(["mine.margin"], ["evaluate", "run", "--config", "run.yaml"])
        Traceback (most recent call last):
        ValueError: --metrics must be written on the command line, not in a file, got \
'mine.margin'
    """
    written: set[str] = set()
    for word, value in zip(words, [*words[1:], ""], strict=True):
        option, equals, rest = word.partition("=")
        if option == OPTION:
            text = rest if equals else value
            written |= {*text.strip("[] ").replace(",", " ").split()}
    for path in paths:
        rule = "be written on the command line, not in a file"
        require(path in written, OPTION, rule, path)


def own_metrics(paths: Iterable[str]) -> dict[str, Metric]:
    """Import functions by their dotted paths; their names are those of the functions.

    Example:
        >>> list(own_metrics(["tepui.metrics.aurc"]))
        ['aurc']
    """
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    metrics: dict[str, Metric] = {}
    for path in paths:
        module, _, name = path.rpartition(".")
        rule = "name functions by their paths, such as mypackage.my_metric"
        require(bool(module) and name.isidentifier(), OPTION, rule, path)
        require(name not in metrics, OPTION, "name each metric once", name)
        metrics[name] = _imported(path, module, name)
    return metrics


def _imported(path: str, module: str, name: str) -> Metric:
    try:
        function: Metric = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"{OPTION} must name functions that can be imported, got {path!r} ({error})"
        ) from error
    require(callable(function), OPTION, "name a function", path)
    return function
