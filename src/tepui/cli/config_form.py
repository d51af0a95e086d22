"""The form of a configuration file, before the parser speaks of what it makes of it."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from tepui.cli.expansion import check_expansion, config_text
from tepui.cli.parsing import known_classes, options_of
from tepui.cli.piped import OPTION
from tepui.core.checks import require

ARGUMENTS = "init_args"
OF_CLASSES = ("class_path", ARGUMENTS, "dict_kwargs")


def check_form(words: Sequence[str]) -> None:
    """Raise if a file that ``--config`` names is none of options, each in its form.

    What YAML cannot read is left to the parser, which names line and column.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it holds too many values, no options, one with hyphens or dots,
            or a class with arguments beside its path.
    """
    check_expansion(words)
    for option, file in options_of(words):
        if option == OPTION:
            _check_file(file)


def _check_file(file: str) -> None:
    try:
        text = config_text(file)
        found = yaml.safe_load(text)
    except FileNotFoundError:
        raise FileNotFoundError(f"no configuration file {file}") from None
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return
    rule = "be a file of options, one a line (epochs: 3)"
    held = "nothing" if found is None else f"other text ({text[:20].strip()!r} …)"
    require(isinstance(found, Mapping), f"{OPTION} {file}", rule, held)
    for name in (str(name) for name in found):
        rule = f"be written {name.replace('-', '_')} in a file"
        require("-" not in name, name, rule, name)
        _check_nested(name, found)
    for place, value in _mappings(found, ""):
        _check_class(place, value)


def _check_nested(name: str, found: Mapping[str, Any]) -> None:
    """Refuse an argument that stands behind a dot, not inside what it belongs to."""
    option, dot, argument = name.partition(".")
    if not dot:
        return
    form = f"{{{argument}: {found[name]}}}"
    if known := known_classes().get(f"--{option}"):
        takes = (k for k in known if argument in inspect.signature(k).parameters)
        kind = found.get(option, next(takes, known[0]).__name__)
        form = f"{{class_path: {kind}, {ARGUMENTS}: {form}}}"
    require(False, name, f"be nested in a file, such as {option}: {form}", name)


def _check_class(place: str, value: Mapping[str, Any]) -> None:
    """Refuse a class whose arguments stand beside its path."""
    beside = [str(name) for name in value if name not in OF_CLASSES]
    if "class_path" in value and beside:
        kind, first = value["class_path"], value[beside[0]]
        example = f"{{class_path: {kind}, {ARGUMENTS}: {{{beside[0]}: {first}}}}}"
        rule = f"have the arguments of a class under {ARGUMENTS}, such as {example}"
        require(False, place, rule, f"{', '.join(beside)} beside class_path")


def _mappings(value: object, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every mapping inside a value, with the option under which it stands."""
    if isinstance(value, Mapping):
        yield place, value
        for name, part in value.items():
            yield from _mappings(part, place or str(name))
    elif isinstance(value, list):
        for part in value:
            yield from _mappings(part, place)
