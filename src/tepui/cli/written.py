"""What counts only where a person wrote it: on the command line.

A configuration file may come from anybody. It names no function, since naming one is a
request to run it; no recipe that is a module; no cluster, whose answers are
unpickled; and no further file.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from tepui.cli.own_functions import is_own
from tepui.cli.parsing import OF_FUNCTIONS, class_names, list_of, options_of
from tepui.core.checks import require
from tepui.papers.recipe import is_module


def check_written(values: Mapping[str, Any], words: Sequence[str]) -> None:
    """Raise if a value that must be written on the command line stands elsewhere.

    Example:
        >>> words = ["evaluate", "run", "--config", "run.yaml"]
        >>> check_written({"metrics": ["mine.margin"]}, words)
        Traceback (most recent call last):
        ValueError: --metrics must be written on the command line, not in a file, got \
'mine.margin'
    """
    found = {option: values.get(option.strip("-")) or () for option in OF_FUNCTIONS}
    found["--types"] = [*filter(is_own, values.get("types") or ())]
    found["--ray.address"] = [getattr(values.get("ray"), "address", None)]
    found["--config"] = values.get("config") or ()
    # Recipes that are modules are imported.
    found["items"] = [*filter(is_module, values.get("items") or ())]
    found["recipe"] = [*filter(is_module, [values.get("recipe") or ""])]
    extractor = values.get("extractor")  # a run, or what is imported and called
    found["--extractor"] = [] if Path(extractor or ".").is_dir() else [extractor]
    for option, items in found.items():
        written = {*words} | _written(option, words)
        for item in items:
            rule = "be written on the command line, not in a file"
            require(item is None or str(item) in written, option, rule, item)


def _written(option: str, words: Sequence[str]) -> set[str]:
    """Return the values of an option, whole and by their items."""
    values = [value for name, value in options_of(words) if list_of(name) == option]
    return {*values, *chain.from_iterable(class_names(option, v) for v in values)}
