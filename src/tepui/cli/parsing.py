"""Names on the command line: what is known, how it is spelled, lists of values."""

import inspect
import json
from collections.abc import Iterable, Sequence
from typing import Any

from torch.nn import Module
from torch.utils.data import Dataset

from tepui import data, methods, models
from tepui.cli import wrapped
from tepui.cli.own_functions import OPTIONS as OF_FUNCTIONS
from tepui.core.checks import one_of, require
from tepui.data import Augmentation
from tepui.training import SGD, AdamW, schedule

LISTS = ("--seeds", "--methods", "--augment", "--types", *OF_FUNCTIONS)
OOD = "--ood"
GRID = "--grid"
_WRITTEN = "be written NAME=DATASET or NAME=DATASET:FOLDER"
DEFAULT_MODEL = "ConvNet"
FLAGS = (
    "--resume",
    "--quiet",
    "--overwrite",
    "--deterministic",
    "--compile",
    "--offload",
    "--tensorboard",
    "--list",
    "--dry_run",
    "--json",
    "--markdown",
)


def known_classes() -> dict[str, list[type]]:
    """Return the classes that each option can name without their package."""
    ways, sets = _classes(methods, methods.Method), _classes(data, Dataset)
    return {
        "--data": [kind for kind in sets if "train" in _options(kind)],
        "--unlabeled": [kind for kind in sets if _is_whole(kind)],
        "--model": _classes(models, models.Model) + _classes(wrapped, Module),
        "--method": ways,
        "--methods": ways,
        "--optimizer": [SGD, AdamW],
        "--schedule": _classes(schedule, schedule.Schedule),
        "--augment": _classes(data, Augmentation),
        OOD: [kind for kind in sets if _can_be_unfamiliar(kind)],
    }


def known_names() -> dict[str, list[str]]:
    """Return the names that each option knows."""
    return {
        option: [kind.__name__ for kind in kinds]
        for option, kinds in known_classes().items()
    }


def normalized(arguments: Sequence[str]) -> list[str]:
    """Return the words of the command line as the parser reads them.

    Lists may be written as several words or one (``--seeds 13 17 27``, quoted or not),
    flags without a value (``--resume``), options with dashes (``--batch-size``), data
    sets with a name of their own (``--ood noise=UniformNoise``, see :func:`named_set`),
    grids as several words (``--grid rho=0.1,0.2 fraction=0.4``).

    Example:
        >>> normalized(["--seeds", "13", "17", "--batch-size", "8", "--resume"])
        ['--seeds', '[13, 17]', '--batch_size', '8', '--resume', 'true']
        >>> normalized(["--seeds", "13 17"])
        ['--seeds', '[13, 17]']
        >>> normalized(["--ood", "noise=UniformNoise"])
        ['--ood', '{"noise": "UniformNoise"}']
    """
    words: list[str] = []
    sets: list[str] = []
    rest = list(arguments)
    while rest:
        word = _underscored(rest.pop(0))
        option, equals, value = word.partition("=")
        if option in (*LISTS, OOD, GRID) and equals:
            word, rest = option, [value, *rest]
        if word == OOD:
            require(bool(rest), OOD, _WRITTEN, "nothing")
            sets.append(rest.pop(0))
            while rest and not rest[0].startswith("--"):
                sets.append(rest.pop(0))
            continue
        words.append(word)
        values: list[str] = []
        if word in LISTS:
            while rest and not rest[0].startswith("--"):
                values += _items(rest.pop(0))
            words.append(f"[{', '.join(values)}]")
        elif word == GRID:
            while rest and not rest[0].startswith("--"):
                values.append(rest.pop(0))
            words.append(json.dumps(values))
        elif word in FLAGS and (not rest or rest[0] not in ("true", "false", "null")):
            words.append("true")
    if sets:
        words += [OOD, json.dumps(_by_name(sets))]
    return _with_model(words)


def named_set(text: str) -> tuple[str, Any]:
    """Return the name of a data set and what the parser builds it from.

    Example:
        >>> named_set("far=UnlabeledFolder:pictures")
        ('far', {'class_path': 'UnlabeledFolder', 'init_args': {'path': 'pictures'}})
    """
    name, equals, value = text.partition("=")
    require(bool(name and equals and value), OOD, _WRITTEN, text)
    if value.startswith("{"):
        try:
            return name, json.loads(value)
        except json.JSONDecodeError as error:
            raise ValueError(f"{OOD} {name} must be JSON, but: {error}") from error
    kind, colon, folder = value.partition(":")
    kind = known_spelling(kind, known_names()[OOD])
    if not colon:
        return name, kind
    one_of(OOD, kind, known_names()[OOD])
    takes = [key for key in ("path", "root") if key in _options(getattr(data, kind))]
    require(bool(takes), f"{OOD} {name}", f"name no folder, {kind} takes none", folder)
    return name, {"class_path": kind, "init_args": {takes[0]: folder}}


def with_data_option(arguments: Sequence[str]) -> list[str]:
    """Return the words with ``corrupt NAME`` written as ``corrupt --data NAME``.

    Example:
        >>> with_data_option(["corrupt", "digits", "--out", "x"])
        ['corrupt', '--data', 'digits', '--out', 'x']
    """
    words = list(arguments)
    if words[:1] != ["corrupt"] or len(words) < 2 or words[1].startswith("-"):
        return words
    return ["corrupt", "--data", *words[1:]]


def known_spelling(name: str, known: Iterable[str]) -> str:
    """Return a known name as the library spells it, any other as it is.

    Example:
        >>> known_spelling("cifar10", ["CIFAR10", "Digits"])
        'CIFAR10'
    """
    return {each.lower(): each for each in known}.get(name.lower(), name)


def spelled(arguments: Sequence[str]) -> list[str]:
    """Return the words with known names of classes as the library spells them.

    Example:
        >>> spelled(["train", "--data", "digits", "--methods", "[sam, gsam]"])
        ['train', '--data', 'Digits', '--methods', '[SAM, GSAM]']
    """
    words = list(arguments)
    options = _known_for(arguments)
    for position, word in enumerate(arguments):
        option, equals, value = word.partition("=")
        if option not in options:
            continue
        if equals:
            words[position] = f"{option}={_value_spelled(value, options[option])}"
        elif position + 1 < len(words):
            value = arguments[position + 1]
            words[position + 1] = _value_spelled(value, options[option])
    return words


def check_names(arguments: Sequence[str]) -> None:
    """Raise if an option names an unknown class; the message lists the known ones."""
    known = _known_for(arguments)
    for option, value in options_of(arguments):
        names = class_names(option, value) if option in known else []
        for name in filter(str.isidentifier, names):
            one_of(option, name, known[option])


def options_of(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Return every option of the command line with its value.

    Args:
        arguments: The words of the command line, lists joined.

    Returns:
        Pairs in the order they were written.

    Example:
        >>> options_of(["train", "--model", "MLP", "--epochs=3"])
        [('--model', 'MLP'), ('--epochs', '3')]
    """
    pairs = []
    for position, word in enumerate(arguments):
        option, equals, value = word.partition("=")
        if not option.startswith("--"):
            continue
        if equals:
            pairs.append((option, value))
        elif position + 1 < len(arguments):
            pairs.append((option, arguments[position + 1]))
    return pairs


def class_names(option: str, value: str) -> list[str]:
    """Return the names in the value of an option that takes classes.

    Args:
        option: Such as ``--methods``.
        value: One name, or a list; for ``--ood`` a mapping.

    Returns:
        The names; a value with mappings is one of them, whole.

    Example:
        >>> class_names("--methods", "[SAM, mine.Way]")
        ['SAM', 'mine.Way']
    """
    if option != OOD:
        return _items(value)
    return [
        str(item.get("class_path")) if isinstance(item, dict) else str(item)
        for item in json.loads(value).values()
    ]


def _known_for(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Return what options can name; methods of a recipe are no classes."""
    options = known_names()
    if arguments[:1] == ["reproduce"]:
        del options["--methods"]
    return options


def _by_name(sets: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in map(named_set, sets):
        require(name not in found, OOD, "name each data set once", name)
        found[name] = value
    return found


def _with_model(words: list[str]) -> list[str]:
    """Name the default model where only its options are written."""
    options = [word.partition("=")[0] for word in words]
    own = [place for place, word in enumerate(options) if word.startswith("--model.")]
    if not own or "--model" in options or "--config" in options:
        return words
    return [*words[: own[0]], "--model", DEFAULT_MODEL, *words[own[0] :]]


def _value_spelled(value: str, known: Sequence[str]) -> str:
    if "{" in value:
        return value
    items = ", ".join(known_spelling(item, known) for item in _items(value))
    return f"[{items}]" if value.startswith("[") else items


def _underscored(word: str) -> str:
    if not word.startswith("--"):
        return word
    option, equals, value = word[2:].partition("=")
    return f"--{option.replace('-', '_')}{equals}{value}"


def _items(text: str) -> list[str]:
    """Split a list written with brackets, commas or blanks; leave mappings whole."""
    if "{" in text:
        return [text.strip().removeprefix("[").removesuffix("]")]
    return text.strip("[] ").replace(",", " ").split()


def _can_be_unfamiliar(kind: type) -> bool:
    """Return whether the command line can make a data set of unfamiliar samples."""
    return any(option in _options(kind) for option in ("train", "shape", "path"))


def _options(kind: type) -> list[str]:
    """Return the arguments of a class."""
    return list(inspect.signature(kind).parameters)


def _is_whole(kind: type) -> bool:
    """Return whether a data set is complete, not a base that others fill."""
    return bool(getattr(kind, "__final__", False))


def _classes(module: object, base: type) -> list[type]:
    return [
        item
        for _, item in inspect.getmembers(module, inspect.isclass)
        if issubclass(item, base) and not inspect.isabstract(item) and item is not base
    ]
