"""The form of a configuration file, before the parser speaks of what it makes of it."""

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from tepui.cli.expansion import check_expansion, config_text
from tepui.cli.known import known_classes, known_names, known_spelling
from tepui.cli.parsing import CALLED, LISTS, NAMED, options_of
from tepui.cli.piped import NAME, OPTION, called
from tepui.core.checks import require

ARGUMENTS = "init_args"
CLASS_PATH = "class_path"
OF_CLASSES = (CLASS_PATH, ARGUMENTS, "dict_kwargs")
LONGEST = 80  # characters of a refused line that are shown
# Stands for a class that cannot be known.
_ANY = "CLASS"
# Under which a class is named by those who do not know how it is called here.
_NAMES = ("name", "class", "type", "kind")


def check_form(words: Sequence[str]) -> None:
    """Raise if a file that ``--config`` names is none of options, each in its form.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no text or no YAML, or holds too many values, no options,
            one twice or with hyphens or dots, or a class without a name, named in
            another form, or with arguments beside its path.
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
    except IsADirectoryError:
        raise ValueError(f"{OPTION} must be a file, got the folder {file}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{_whole(file)} must be text, but: {error}") from error
    except yaml.YAMLError as error:
        raise ValueError(_unread(file, text, error)) from error
    except (OSError, ValueError, RecursionError):
        return
    rule = "hold options, one a line (epochs: 3)"
    held = "nothing" if found is None else f"other text ({text[:20].strip()!r} …)"
    require(isinstance(found, Mapping), _whole(file), rule, held)
    _check_once(_whole(file), yaml.compose(text, yaml.SafeLoader))
    for name in found:
        rule = "name each option by a word"
        held = "null" if name is None else name
        require(isinstance(name, str), _whole(file), rule, held)
        rule = f"be written {name.replace('-', '_')} in a file"
        require("-" not in name, name, rule, name)
        _check_nested(name, found)
        for value in _values(name, found[name]):
            _check_named(name, value)
    for place, value in _mappings(found, ""):
        _check_class(place, value)


def _values(option: str, value: object) -> Iterable[object]:
    """Return what an option has several of, in a list or by names of their own."""
    if f"--{option}" in LISTS:
        return value if isinstance(value, list) else ()
    if f"--{option}" in NAMED and isinstance(value, Mapping):
        return value.values()
    return [value]


def _check_once(file: str, node: yaml.Node) -> None:
    """Refuse a name that stands twice in one mapping: YAML would take the last."""
    parts = node.value if isinstance(node, yaml.CollectionNode) else []
    if isinstance(node, yaml.MappingNode):
        names = [name for name, _ in parts if isinstance(name, yaml.ScalarNode)]
        firsts = {name.value: name for name in reversed(names)}
        for name in names:
            again = f"again in line {name.start_mark.line + 1}"
            first = firsts[name.value]
            require(name is first, file, f"name {name.value} once", again)
        parts = [part for _, part in parts]
    for part in parts:
        _check_once(file, part)


def _check_named(option: str, value: object) -> None:
    """Refuse a class that is named by a key of its own, or as its arguments are."""
    known = known_names().get(f"--{option}", [])
    if not isinstance(value, Mapping) or CLASS_PATH in value or not known:
        return
    words = all(isinstance(key, str) for key in value)
    rule = f"be written {{{CLASS_PATH}: {_ANY}, {ARGUMENTS}: {{...}}}}"
    require(words, option, rule, dict(value))
    given = dict(value)
    if len(given) == 1 and isinstance(inner := next(iter(given.values())), Mapping):
        name, given = str(*given), dict(inner)
    else:
        name = str(next((given.pop(key) for key in _NAMES if key in given), None))
    kind = known_spelling(name, known)
    form = f"{{{CLASS_PATH}: {kind}, {ARGUMENTS}: {{...}}}}"
    if f"--{option}" in (*CALLED, *LISTS):
        written = ", ".join(f"{key}={part!r}" for key, part in given.items())
        form = f'"{kind}({written})" or {form}'
    require(kind not in known, option, f"be written {form}", dict(value))


def _whole(file: str) -> str:
    """Return what to call a file where all of it is wrong."""
    name = called(file)
    return name if name == NAME else f"{OPTION} {file}"


def _unread(file: str, text: str, error: yaml.YAMLError) -> str:
    """Return in which line a file is no YAML, and why."""
    if isinstance(error, yaml.reader.ReaderError):
        why, place, begins = error.reason, error.position, error.position
    else:
        why, place = error.problem, error.problem_mark.index
        begins = place if error.context_mark is None else error.context_mark.index
    number, first = (text.count("\n", 0, each) for each in (place, begins))
    if first < number:
        why = f"{why}, in what line {first + 1} begins"
    line = text.split("\n")[number].strip()[:LONGEST]
    return (
        f"{_whole(file)} must be YAML, but line {number + 1} is not ({why}), got "
        f"{line!r}"
    )


def _check_nested(name: str, found: Mapping[str, Any]) -> None:
    """Refuse an argument that stands behind a dot, not inside what it belongs to."""
    option, *parts = name.split(".")
    inner = [part for part in parts if part != ARGUMENTS]
    if not inner:
        return
    typed = f"--{option}"
    if typed not in known_classes():
        form = _inside(inner, found[name])
    elif typed in NAMED:
        label, *inner = inner
        form = f"{{{label}: {_of_class(inner, found[name], _ANY)}}}"
    else:
        form = _of_class(inner, found[name], _kind(option, inner[0], found))
    form = f"[{form}]" if typed in LISTS else form
    require(False, name, f"be nested in a file, such as {option}: {form}", name)


def _inside(names: Sequence[str], value: object) -> str:
    """Return how a value is written inside mappings, each in the one before.

    Example:
        >>> _inside(["a", "b"], 1)
        '{a: {b: 1}}'
    """
    if not names:
        return str(value)
    return f"{{{names[0]}: {_inside(names[1:], value)}}}"


def _of_class(names: Sequence[str], value: object, kind: str) -> str:
    """Return how a value is written as an argument of a class inside classes.

    Example:
        >>> _of_class(["rho"], 0.1, "SAM")
        '{class_path: SAM, init_args: {rho: 0.1}}'
    """
    if not names:
        return str(value)
    if names[0] == CLASS_PATH:
        return f"{{{CLASS_PATH}: {value}}}"
    form = f"{{{names[0]}: {_of_class(names[1:], value, _ANY)}}}"
    return f"{{{CLASS_PATH}: {kind}, {ARGUMENTS}: {form}}}"


def _kind(option: str, argument: str, found: Mapping[str, Any]) -> str:
    """Return the class that a file names, or the only one that takes an argument."""
    named = found.get(option)
    if isinstance(named, Mapping):
        named = named.get(CLASS_PATH)
    if isinstance(named, str):
        return named
    known = known_classes()[f"--{option}"]
    takes = [k for k in known if argument in inspect.signature(k).parameters]
    return takes[0].__name__ if len(takes) == 1 else _ANY


def _check_class(place: str, value: Mapping[str, Any]) -> None:
    """Refuse a class without a name, or whose arguments stand beside its path."""
    beside = [str(name) for name in value if name not in OF_CLASSES]
    if CLASS_PATH in value and beside:
        example = _of_class(beside[:1], value[beside[0]], value[CLASS_PATH])
        rule = f"have the arguments of a class under {ARGUMENTS}, such as {example}"
        require(False, place, rule, f"{', '.join(beside)} beside {CLASS_PATH}")
    if CLASS_PATH in value:
        path, given = value[CLASS_PATH], value.get(ARGUMENTS, {})
        rule = "be the name of a class, or its path"
        require(isinstance(path, str), f"{place}.{CLASS_PATH}", rule, path)
        rule = "be arguments with their values, {NAME: VALUE, ...}"
        require(isinstance(given, Mapping), f"{place}.{ARGUMENTS}", rule, given)


def _mappings(value: object, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every mapping inside a value, with the option under which it stands."""
    if isinstance(value, Mapping):
        yield place, value
        for name, part in value.items():
            yield from _mappings(part, place or str(name))
    elif isinstance(value, list):
        for part in value:
            yield from _mappings(part, place)
