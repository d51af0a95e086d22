"""Factories of models that say nothing of what they return.

A parser knows a function by what its signature says it returns. Any other callable that
``--model`` names by its exact path, written on the command line, is taken out before.
"""

import inspect
from collections.abc import Sequence

from tepui.cli.admission import has_result, is_path, listed
from tepui.cli.architecture import Architecture, of_factory
from tepui.cli.importing import imported
from tepui.cli.parsing import options_of
from tepui.core.checks import require

OPTION = "--model"


def without_factory(words: Sequence[str]) -> tuple[list[str], Architecture | None]:
    """Return the words without such a factory, and the factory."""
    pairs = options_of(words)
    written = [path for option, path in pairs if option == OPTION and is_path(path)]
    path = written[-1] if written else None
    if path is None or path in listed():
        return [*words], None
    item = imported(OPTION, path, "a model")
    if inspect.isclass(item) or has_result(item):
        return [*words], None
    architecture = of_factory(OPTION, item, path)
    for option, value in pairs:
        rule = "be left out, since a function takes no options"
        require(not option.startswith(f"{OPTION}."), option, rule, value)
    return _without_option(words), architecture


def _without_option(words: Sequence[str]) -> list[str]:
    kept: list[str] = []
    skipped = False
    for word in words:
        if not skipped and word != OPTION and not word.startswith(f"{OPTION}="):
            kept.append(word)
        skipped = word == OPTION
    return kept
