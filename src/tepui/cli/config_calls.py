"""Classes with arguments in one word, such as ``SAM(rho=0.1)``, in configuration files.

They are read by the command line's own reader, which executes nothing, and become what
a file would hold otherwise; what they name is then admitted or refused as a file's is.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import yaml

from tepui.cli.calls import is_call
from tepui.cli.config_form import check_form
from tepui.cli.expansion import config_text
from tepui.cli.known import names_for
from tepui.cli.parsing import CALLED, LISTS, configured, items_in
from tepui.cli.piped import OPTION, apart
from tepui.core.checks import require


def with_calls(words: Sequence[str]) -> list[str]:
    """Return the words of a command, files with such words by what they stand for.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a file is none of options, each in its form, or such a word is
            not written as on the command line.
    """
    check_form(words)
    known = [option for option in names_for(words) if option in (*CALLED, *LISTS)]
    read = [part for word in words for part in apart(word)]
    for place, (option, file) in enumerate(pairwise(read), 1):
        if option == OPTION:
            read[place] = _text_read(file, known) or file
    return read


def _text_read(file: str, known: Sequence[str]) -> str | None:
    """Return what a file holds where it has such words; None where it has none."""
    try:
        found = yaml.safe_load(config_text(file))
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return None  # which the parser names
    given = {name: _read(found.get(name[2:]), name) for name in known}
    changed = {name[2:]: value for name, value in given.items() if value is not None}
    return yaml.safe_dump({**found, **changed}) if changed else None


def _read(value: Any, option: str) -> Any:
    """Return what stands for the value of an option; None if it holds no such word.

    Example:
        >>> _read(["SAM(rho=0.1)", "GSAM"], "--methods")
        [{'class_path': 'SAM', 'init_args': {'rho': 0.1}}, 'GSAM']
    """
    if isinstance(value, str) and option not in CALLED:
        value = items_in(value)
    if isinstance(value, str):
        return _read([value], option)[0] if is_call(value) else None
    if not isinstance(value, list) or not any(map(_is_call, value)):
        return None
    return [_mapping(item, option) if _is_call(item) else item for item in value]


def _is_call(item: object) -> bool:
    return isinstance(item, str) and is_call(item)


def _mapping(word: str, option: str) -> Mapping[str, Any]:
    rule = 'be in quotes in a file, "NAME(argument=value, ...)": a comma parts a list'
    require(word.count("(") == word.count(")"), option, rule, word)
    (text,) = configured([word], option)
    mapping: Mapping[str, Any] = json.loads(text)
    return mapping
