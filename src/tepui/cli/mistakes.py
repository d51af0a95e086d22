"""What a parser finds wrong, in words: the option as it is typed, the rule, the value.

Messages of jsonargparse that are not known here stay as they are.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from typing import Any

from tepui.core.checks import one_of

NOT_GIVEN = ", got None"
KINDS = {
    "<class 'int'>": "a whole number",
    "<class 'float'>": "a number",
    "<class 'bool'>": "true or false",
    "<class 'NoneType'>": "null",
    "<class 'tuple'>": "several values",
    "tuple[float, ...]": "several numbers",
    "list[float]": "several numbers",
    "list[tepui.methods.base.Method]": (
        'a list of methods (in a file, methods: [DeepEnsemble, "SAM(rho=0.1)"])'
    ),
    "<class 'tepui.training.early_stopping.EarlyStopping'>": (
        "written with its options (in a file, early_stopping: {patience: 5})"
    ),
    "<class 'collections.abc.Sequence'>": "several values",
    "Method": "a method by its name, or by the path of a class of yours",
    "Schedule": "a schedule by its name, such as Cosine",
    "collections.abc.Callable[[], torch.utils.data.dataset.Dataset[typing.Any]]": (
        "a data set by its name, or by the path of a class of yours (a torch Dataset)"
    ),
    "collections.abc.Callable[[], torch.nn.modules.module.Module]": (
        "a model by its name, or by the path of a class of yours (a torch Module)"
    ),
}
# What helps where an option was not given what it takes.
_INSTEAD = {"--class-weights": "; balanced, alone, takes such numbers from the labels"}
_OR_ELSE = {"--validation": "; or give a share of the training data, such as 0.2"}
# Options that take a class of one's own, by its path.
_TAKE_OWN = ("--method", "--methods", "--model", "--data")
# Where classes lie that an option names, with arguments of their own.
_OWNERS = {
    "tepui.methods.": "--method",
    "tepui.models.": "--model",
    "tepui.data.": "--data",
    "tepui.training.optimizer.": "--optimizer",
    "tepui.losses.": "--loss",
}
# What others call an argument of these classes.
_ALSO = {"learning_rate": "lr"}


@dataclass(frozen=True)
class Asked:
    """What was asked for.

    Attributes:
        command: The command's name.
        options: All that it takes, as they are typed.
        classes: Those whose arguments may be written, by their paths.
        commands: What every command calls.
    """

    command: str
    options: Sequence[str]
    classes: Mapping[str, type]
    commands: Mapping[str, Callable[..., None]]


def in_words(
    message: str,
    command: str,
    options: Iterable[str],
    classes: Mapping[str, type],
    commands: Mapping[str, Callable[..., None]],
) -> str:
    """Return a parser's message in our words.

    Example:
        >>> message = "unrecognized arguments: --epohcs 3"
        >>> in_words(message, "train", ["--epochs"], {}, {})
        "tepui train has no option --epohcs (did you mean '--epochs'?)"
    """
    words = _innermost(" ".join(message.split()))
    typed = [_typed(each) for each in options if not each.endswith(".help")]
    asked = Asked(command, typed, classes, commands)
    for pattern, say in _MESSAGES.items():
        if match := pattern.search(words):
            return say(match, asked)
    return words


def command_in(message: str) -> str | None:
    """Return the command that a message names.

    Example:
        >>> command_in("the following arguments are required: predict.run")
        'predict'
    """
    found = _COMMAND.search(message)
    return None if found is None else found[1] or found[2]


def as_typed(message: str, options: Sequence[str]) -> str:
    """Return what a command refuses with the option that was not given, in its words.

    Example:
        >>> as_typed("keep must be set, got None", ["--keep"])
        '--keep must be set, but it was not given'
    """
    name, rule = message.split(maxsplit=1)
    option = f"--{_typed(name.removeprefix('--'))}"
    if option not in [_typed(each) for each in options]:
        return message
    known = rule.startswith("must be given")
    told = rule.replace(NOT_GIVEN, "" if known else ", but it was not given")
    return f"{option} {told}"


def check_known(option: str, name: str, known: Sequence[str]) -> None:
    """Raise if a name is not that of a class; one of one's own goes by its path."""
    try:
        one_of(option, name, known)
    except ValueError as error:
        near = "did you mean" in str(error)
        own = f"; a class of yours goes by its path, such as mypackage.{name}"
        hint = own if option in _TAKE_OWN and not near else _OR_ELSE.get(option, "")
        raise ValueError(f"{error}{hint}") from None


def as_refused(message: str) -> str:
    """Return what a class of a list refuses, without what the parser says of it.

    Example:
        >>> errors = "Errors: - c must be positive - Expected a <class 'NoneType'>"
        >>> as_refused(f"Does not validate against any of the Union subtypes {errors}")
        'c must be positive'
    """
    found = _REFUSED.search(" ".join(message.split()))
    if found is None:
        return message
    parts = found[1].split(" - ")
    return " - ".join(part for part in parts if not _OF_ANOTHER.fullmatch(part))


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint at the name that was perhaps meant; empty where none is near.

    Example:
        >>> nearest("tran", ["train", "report"]), nearest("rep", ["train", "report"])
        (" (did you mean 'train'?)", " (did you mean 'report'?)")
    """
    names = [*known]
    begun = [each for each in names if each.startswith(name)]
    found = begun if len(begun) == 1 else get_close_matches(name, names, n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def _unknown_option(match: re.Match[str], asked: Asked) -> str:
    name = _typed(match[1])
    key = name.removeprefix("--").replace("-", "_")
    key = _ALSO.get(key, key)
    if owner := _owner(key, asked):
        hint = f" (did you mean '{owner}.{key}'?)"
    else:
        hint = _elsewhere(key, asked) or nearest(name, asked.options)
    return f"tepui {asked.command} has no option {name}{hint}"


def _owner(key: str, asked: Asked) -> str | None:
    """Return the option whose classes take an argument of that name."""
    for package, option in _OWNERS.items():
        kinds = (kind for path, kind in asked.classes.items() if package in path)
        if option in asked.options and any(_takes(kind, key) for kind in kinds):
            return option
    return None


def _takes(call: Callable[..., Any], key: str) -> bool:
    return key in inspect.signature(call).parameters


def _unknown_key(match: re.Match[str], asked: Asked) -> str:
    keys = [option.removeprefix("--").replace("-", "_") for option in asked.options]
    key = _ALSO.get(match[1], match[1])
    if owner := _owner(key, asked):
        form = f"{owner[2:]}: {{class_path: CLASS, init_args: {{{key}: VALUE}}}}"
        hint = f" (did you mean, in a file, '{form}'?)"
    else:
        hint = _elsewhere(key, asked) or nearest(key, keys)
    return f"tepui {asked.command} has no option {match[1]}{hint}"


def _elsewhere(key: str, asked: Asked) -> str:
    """Return a hint at another command that has an option; empty where none has it."""
    others = (c for c, call in asked.commands.items() if _takes(call, key))
    other = next(others, None)
    return f" (tepui {other} has it)" if other else ""


def _unknown_argument(match: re.Match[str], asked: Asked) -> str:
    option, name = _place(match.string).removeprefix("--"), match[1]
    if not option:
        return _unknown_key(match, asked)
    *tried, _ = match.string.split(match[0])  # by each class that it could be given to
    inner = [found[-1] for each in tried if (found := _OF_CLASS.findall(each))]
    paths = dict.fromkeys(inner or _OF_CLASS.findall(match.string))
    kinds = " or ".join(path.rpartition(".")[2] for path in paths)
    begins = f"{option}.{name} must be an argument of {kinds}"
    known = [asked.classes[path] for path in paths if path in asked.classes]
    if not known or len(known) < len(paths):
        return begins
    taken = (inspect.signature(kind).parameters for kind in known)
    names = [*dict.fromkeys(chain.from_iterable(taken))]
    choice = f" ({', '.join(names)})" if names else ", which takes none"
    return f"{begins}{choice}{nearest(name, names)}"


def _wrong_kind(match: re.Match[str], asked: Asked) -> str:
    # Of a list that may be left out, the parser tells why it is not null either.
    value, _, _ = match[2].partition(" - Expected a ")
    hint = _INSTEAD.get(_place(match.string), "")
    return f"{_of_kinds(match.string, [match[1]], value)}{hint}"


def _wrong_choice(match: re.Match[str], asked: Asked) -> str:
    names = re.findall(_QUOTED, match[1])
    rule = f"be one of {', '.join(names)}"
    hint = nearest(match[2], names)
    return f"{_place(match.string)} must {rule}, got {match[2]!r}{hint}"


def _none_of_kinds(match: re.Match[str], asked: Asked) -> str:
    kinds = re.findall(rf"<class '[\w.]+'>|{_CALLABLE}|[\w.]+(?:\[[^\]]*\])?", match[1])
    choices = (re.findall(_QUOTED, kind) for kind in kinds if _is_choice(kind))
    hint = nearest(match[2], chain.from_iterable(choices))
    return f"{_of_kinds(match.string, kinds, match[2])}{hint}"


def _of_no_kind(match: re.Match[str], asked: Asked) -> str:
    return _of_kinds(match.string, [match[1]], match[2])


def _of_kinds(message: str, kinds: Sequence[str], value: str) -> str:
    shown = " or ".join(map(_kind_in_words, kinds))
    return f"{_place(message)} must be {shown}, got {value!r}"


def _kind_in_words(kind: str) -> str:
    """Return a type as somebody who types a value would call it.

    Example:
        >>> _kind_in_words("<class 'int'>"), _kind_in_words("typing.Literal['a', 'b']")
        ('a whole number', 'one of a, b')
    """
    if kind in KINDS:
        return KINDS[kind]
    if found := re.fullmatch(r"<class '(?:\w+\.)*(\w+)'>", kind):
        return found[1]
    if not _is_choice(kind):
        return kind
    first, *others = re.findall(_QUOTED, kind)
    return f"one of {', '.join([first, *others])}" if others else first


def _is_choice(kind: str) -> bool:
    return kind.startswith("typing.Literal[")


def _innermost(message: str) -> str:
    """Return what a message says of the argument of a class, if it is about one.

    A parser tries every class that an option could be and tells why each was refused.

    Example:
        >>> _innermost('Parser key "a": Problem with B: Parser key "c": Expected a D')
        'Parser key "a.c": Expected a D'
    """
    match = _NESTED.search(message)
    if match is None or "is not accepted" in message:
        return message
    return _innermost(f'Parser key "{match[1]}.{match[2]}": {match[3]}')


def _place(message: str) -> str:
    """Return the option that a message is about."""
    return "--" + _typed(".".join(re.findall(r"Parser key \"([\w.]+)\"", message)))


def _missing_argument(match: re.Match[str], asked: Asked) -> str:
    option, kind = _place(match.string), match[2].rpartition(".")[2]
    names = [f"{option}.{_typed(name)}" for name in match[1].split(", ")]
    return f"{' and '.join(names)} must be given with {option} {kind}"


def _missing_word(match: re.Match[str], asked: Asked) -> str:
    word = match[1].upper()
    return f"{word} must be given: tepui {asked.command} {word}"


def _missing_value(match: re.Match[str], asked: Asked) -> str:
    return f"{_typed(match[1])} must be followed by a value"


def _typed(option: str) -> str:
    """Return an option as it is typed."""
    return option.replace("_", "-")


_CALLABLE = r"collections\.abc\.Callable\[\[\], [\w.]+(?:\[[\w.]+\])?\]"
_QUOTED = re.compile(r"'([^']*)'")
_REFUSED = re.compile(r"^Does not validate .* Errors: - (.+?) - Expected a <class")
# What is said of every other class that an option could be.
_OF_ANOTHER = re.compile(r"Import path \S+ does not correspond to a subclass of \w+")
_COMMAND = re.compile(r"Subcommand '(\w+)'|arguments are required: (\w+)\.(?=\w)")
_OF_CLASS = re.compile(r"class_path[= ]'([\w.]+)'")
_NESTED = re.compile(
    r"Parser key \"([\w.]+)\": .*?Parser key \"([\w.]+)\": (.*?)"
    r"(?:\. Got value: Namespace\(.*| - Problem with given class_path .*|"
    r" - Import path .* does not correspond .*|"
    r" - Expected a <class 'NoneType'> Given value type: <class 'jsonargparse.*|$)"
)
_MESSAGES: dict[re.Pattern[str], Callable[[re.Match[str], Asked], str]] = {
    re.compile(r"unrecognized arguments: (--[\w.-]+)"): _unknown_option,
    re.compile(r"does not accept option '([\w.]+)'"): _unknown_key,
    re.compile(r"Option '(\w+)' is not accepted"): _unknown_argument,
    re.compile(r"Expected a (<class '[\w.]+'>)\. Got value: (.*)"): _wrong_kind,
    re.compile(r"Expected a typing.Literal\[(.*?)\]\. Got value: (.*)"): _wrong_choice,
    re.compile(
        r"Parser key .*arguments are required: ([\w, ]+?)"
        r"(?:\. Got| - Expected a .* Given) value: Namespace\(class_path='([\w.]+)'"
    ): _missing_argument,
    re.compile(r"Subtypes: \[(.*)\] Errors: .* Given value: (.*)"): _none_of_kinds,
    re.compile(rf"Type ({_CALLABLE}) expects .* Expected '([\w.]+)'"): _of_no_kind,
    re.compile(rf"Type ({_CALLABLE}) expects .* Got value: (.*)"): _of_no_kind,
    re.compile(r"subclass of (\w+)\. Got value: (.*) Subclass types"): _of_no_kind,
    re.compile(r"arguments are required: (?:\w+\.)?(\w+)"): _missing_word,
    re.compile(r"argument (--[\w.]+): expected .*argument"): _missing_value,
}
