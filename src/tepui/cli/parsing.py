"""Words of the command line as the parser reads them: names, lists, data sets."""

import json
import re
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from tepui import data
from tepui.cli.calls import is_call, mapping_of, parted
from tepui.cli.files_named import READ, check_no_place
from tepui.cli.known import (
    OOD,
    SHIFTED,
    arguments_of,
    known_classes,
    known_names,
    known_spelling,
    names_for,
)
from tepui.cli.mistakes import check_known
from tepui.core.checks import one_of, require

OF_FUNCTIONS = ("--metrics", "--measures", "--models")
# A number for each class, or one word.
WEIGHTS = ("--class_weights", "--loss.class_weights")
LISTS = (
    *("--seeds", "--methods", "--augment", "--types", "--track", "--loss.levels"),
    "--loss.positive_weights",
    *(*WEIGHTS, *OF_FUNCTIONS),
)
# Options whose values are data sets with names of their own.
NAMED = (OOD, SHIFTED)
GRID = "--grid"
# A number or several, with words after them that are of no option.
NUMBERS = ("--rho",)
# Options of one data set, whose place may stand in the same word.
PLACED = ("--data", "--validation", "--unlabeled")
# Options of one class, which may have arguments in the same word.
CALLED = ("--method", "--loss", "--optimizer", "--schedule", "--model")
# Options whose words are taken whole: names of columns have blanks and brackets.
WHOLE = (GRID, "--data.ignore")
_WRITTEN = "be written NAME=DATASET or NAME=DATASET:FOLDER"
_NAME = re.compile(r"[\w-]+=")
DEFAULT_MODEL, MODEL_OF_ROWS = "ConvNet", "MLP"
# Written alone, these mean the model of rows, which the other does not have.
OPTIONS_OF_ROWS = ("--model.hidden", "--model.in_features")
FLAGS = (
    *("--resume", "--quiet", "--open", "--overwrite", "--deterministic", "--compile"),
    *("--offload", "--list", "--dry_run", "--json", "--whole_paths", "--markdown"),
    *("--probabilities", "--detectors", "--remove"),
)


def normalized(arguments: Sequence[str]) -> list[str]:
    """Return the words of the command line as the parser reads them.

    Lists may be written as several words or one (``--seeds 13 17 27``, quoted or not),
    classes with arguments (``--method 'SAM(rho=0.1)'``), flags without a value
    (``--resume``), options with dashes (``--batch-size``), data sets with a name of
    their own (``--ood noise=UniformNoise``, see :func:`named_set`, or all of them in
    one mapping; ``--shifted sketch=ImageFolder:PATH``, while a place of corrupted
    copies stays as it is), grids as several words (``--grid rho=0.1,0.2
    fraction=0.4``), and so are columns (``--data.ignore id 'hours per week'``). A list
    that is added to is one too (``--methods+ 'SAM(rho=0.1)'``). A list of numbers ends
    before a word that is none (``--rho 0.1 0.2 runs/sam``).

    Example:
        >>> normalized(["--seeds", "13", "17", "--batch-size", "8", "--resume"])
        ['--seeds', '[13, 17]', '--batch_size', '8', '--resume', 'true']
        >>> normalized(["--seeds", "13 17"])
        ['--seeds', '[13, 17]']
        >>> normalized(["--rho", "0.1", "0.2", "runs/sam"])
        ['--rho', '[0.1, 0.2]', 'runs/sam']
        >>> normalized(["--methods", "gsam", "SAM(rho=0.1)"])
        ['--methods', '[GSAM, {"class_path": "SAM", "init_args": {"rho": 0.1}}]']
        >>> normalized(["--data.ignore", "no", "income (USD)"])
        ['--data.ignore', '["no", "income (USD)"]']
        >>> normalized(["--ood", "noise=UniformNoise"])
        ['--ood', '{"noise": "UniformNoise"}']
    """
    words: list[str] = []
    sets: dict[str, dict[str, Any]] = {option: {} for option in NAMED}
    rest = deque(arguments)
    while rest:
        word, equals, value = _underscored(rest.popleft()).partition("=")
        option = list_of(word)
        first = value if equals else next(iter(rest), "")
        has_names = first.startswith("{") or _NAME.match(first)
        is_place = word == SHIFTED and not has_names
        if word in CALLED and is_call(first):
            words += [word, *configured([first], word)]
            if not equals:
                rest.popleft()
            continue
        if word in NUMBERS:
            words += [word, *_numbers([value] if equals else [], rest)]
            continue
        if is_place or option not in (*LISTS, *NAMED, *WHOLE):
            words.append(f"{word}{equals}{value}")
            bare = word in FLAGS and not equals
            if bare and (not rest or rest[0] not in ("true", "false", "null")):
                words.append("true")
            continue
        values = [value] if equals else []
        while rest and not rest[0].startswith("--"):
            values.append(rest.popleft())
        if option in WHOLE:
            words += [word, json.dumps(values)]
        elif word in WEIGHTS and len(values) == 1 and values[0].isalpha():
            words += [word, *values]
        elif option in LISTS:
            items = [item for value in values for item in items_in(value)]
            words += [word, f"[{', '.join(configured(items, option))}]"]
        else:
            require(len(values) > 0, word, _WRITTEN, "nothing")
            for name, content in chain.from_iterable(_sets(v, word) for v in values):
                rule = "name each data set once"
                require(name not in sets[word], word, rule, name)
                sets[word][name] = content
    options = [word.partition("=")[0] for word in words]
    both = bool(sets[SHIFTED]) and SHIFTED in options
    rule = "name corrupted copies or natural shifts, not both at once"
    require(not both, SHIFTED, rule, ", ".join(sets[SHIFTED]))
    for option, named in sets.items():
        words += [option, json.dumps(named)] if named else []
    return _with_model(words)


def named_set(text: str, option: str = OOD) -> tuple[str, Any]:
    """Return the name of a data set and what the parser builds it from.

    Example:
        >>> named_set("far=UnlabeledFolder:pictures")
        ('far', {'class_path': 'UnlabeledFolder', 'init_args': {'path': 'pictures'}})
    """
    name, equals, value = text.partition("=")
    require(bool(name and equals and value), option, _WRITTEN, text)
    if value.startswith("{"):
        try:
            return name, json.loads(value)
        except json.JSONDecodeError as error:
            raise ValueError(f"{option} {name} must be JSON, but: {error}") from error
    if option == SHIFTED and ":" not in value and Path(value).suffix.lower() in READ:
        value = f"{data.Table.__name__}:{value}"
    kind, colon, folder = value.partition(":")
    kind = known_spelling(kind, known_names()[option])
    if not colon:
        check_no_place(option, name, kind)
        return name, kind
    one_of(option, kind, known_names()[option])
    key = _key_of_place(getattr(data, kind), f"{option} {name}", folder)
    return name, {"class_path": kind, "init_args": {key: folder}}


def _key_of_place(kind: type, option: str, place: str) -> str:
    """Return the argument of a data set that takes its place."""
    takes = [key for key in ("path", "root") if key in arguments_of(kind)]
    require(bool(takes), option, f"name no folder, {kind.__name__} takes none", place)
    return takes[0]


def configured(items: Sequence[str], option: str) -> list[str]:
    """Return the items of a list, where one has arguments as a configuration's."""
    if not any(map(is_call, items)):
        return list(items)
    known, written = known_names().get(option, []), []
    for item in items:
        mapping = mapping_of(item, option) if is_call(item) else None
        name = known_spelling(mapping["class_path"] if mapping else item, known)
        if name.isidentifier():
            check_known(option, name, known)
        told = mapping and json.dumps(mapping | {"class_path": name})
        written.append(told or name)
    return written


def _sets(text: str, option: str) -> Iterable[tuple[str, Any]]:
    """Return the data sets that a word holds by name: one, or those of a mapping."""
    if not text.startswith("{"):
        return [named_set(text, option)]
    try:
        read: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{option} must be JSON, but: {error}") from error
    return read.items()


def with_data_option(arguments: Sequence[str]) -> list[str]:
    """Return the words with a data set after a command written as an option.

    ``corrupt NAME`` stands for ``corrupt --data NAME``, and so does the second word
    after ``predict`` where a data set, and no file or folder, has this name.

    Example:
        >>> with_data_option(["corrupt", "digits", "--out", "x"])
        ['corrupt', '--data', 'digits', '--out', 'x']
        >>> with_data_option(["predict", "runs/sam", "cifar10:data"])
        ['predict', 'runs/sam', '--data', 'cifar10', '--data.root', 'data']
    """
    words = list(arguments)
    place = {"corrupt": 1, "predict": 2}.get(words[0] if words else "", len(words))
    if len(words) <= place or any(w.startswith("-") for w in words[1 : place + 1]):
        return words
    name, colon, folder = words[place].partition(":")
    if words[0] == "predict" and (Path(words[place]).exists() or Path(name).suffix):
        return words
    kinds = {kind.__name__: kind for kind in known_classes()["--data"]}
    kind = kinds.get(known_spelling(name, kinds))
    if words[0] == "predict" and kind is None:
        return words
    option = ["--data", name]
    if colon:
        key = "root" if kind is None else _key_of_place(kind, "--data", folder)
        option += [f"--data.{key}", folder]
    return [*words[:place], *option, *words[place + 1 :]]


def with_places(arguments: Sequence[str]) -> list[str]:
    """Return the words with the place of a data set as an option of its own.

    Example:
        >>> with_places(["train", "--data", "imagefolder:my photos"])
        ['train', '--data', 'ImageFolder', '--data.path', 'my photos']
    """
    words: list[str] = []
    for before, word in zip(["", *arguments], arguments, strict=False):
        parts = word.partition("=")
        option, value = (parts[0], parts[2]) if word[:2] == "--" else (before, word)
        name, colon, place = value.partition(":")
        kinds = known_classes().get(option, []) if colon and option in PLACED else []
        known = {kind.__name__: kind for kind in kinds}
        kind = known.get(known_spelling(name, known))
        if kind is None:
            words.append(word)
            continue
        if word is not value:
            words.append(option)
        key = _key_of_place(kind, option, place)
        words += [kind.__name__, f"{option}.{key}", place]
    return words


def with_files_first(arguments: Sequence[str]) -> list[str]:
    """Return the words with configuration files before all options, which then win.

    Example:
        >>> with_files_first(["train", "--epochs", "1", "--config", "mine.yaml"])
        ['train', '--config', 'mine.yaml', '--epochs', '1']
    """
    command, rest = list(arguments[:1]), iter(arguments[1:])
    files: list[str] = []
    options: list[str] = []
    for word in rest:
        if word == "--config":
            files += [word, *islice(rest, 1)]
        else:
            (files if word.startswith("--config=") else options).append(word)
    return [*command, *files, *options]


def spelled(arguments: Sequence[str]) -> list[str]:
    """Return the words with known names of classes as the library spells them.

    Example:
        >>> spelled(["train", "--data", "digits", "--methods", "[sam, gsam]"])
        ['train', '--data', 'Digits', '--methods', '[SAM, GSAM]']
    """
    words = list(arguments)
    names = names_for(arguments)
    for position, word in enumerate(arguments):
        written, equals, value = word.partition("=")
        option = list_of(written)
        if option not in names or option in NAMED:
            continue
        if equals:
            words[position] = f"{written}={_value_spelled(value, names[option])}"
        elif position + 1 < len(words):
            value = arguments[position + 1]
            words[position + 1] = _value_spelled(value, names[option])
    return words


def check_names(arguments: Sequence[str]) -> None:
    """Raise if an option names an unknown class; the message lists the known ones."""
    names = names_for(arguments)
    for written, value in options_of(arguments):
        option = list_of(written)
        for name in class_names(option, value) if option in names else ():
            if name.isidentifier():
                check_known(option, name, names[option])


def options_of(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Return every option of the command line with its value.

    Example:
        >>> options_of(["train", "--model", "MLP", "--epochs=3"])
        [('--model', 'MLP'), ('--epochs', '3')]
    """
    pairs = []
    for word, following in zip_longest(arguments, arguments[1:]):
        option, equals, value = word.partition("=")
        if option.startswith("--") and (equals or following is not None):
            pairs.append((option, value if equals else following))
    return pairs


def list_of(option: str) -> str:
    """Return the option of the list that an option adds to, any other as it is.

    Example:
        >>> list_of("--methods+")
        '--methods'
    """
    return option.removesuffix("+")


def _numbers(values: list[str], rest: deque[str]) -> list[str]:
    """Return numbers as one word, taken from the rest up to a word that is none."""
    while rest and (_is_number(rest[0]) or not (values or rest[0].startswith("--"))):
        values.append(rest.popleft())
    items = [item for value in values for item in items_in(value)]
    return values if len(items) < 2 else [f"[{', '.join(items)}]"]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def class_names(option: str, value: str) -> list[str]:
    """Return the names in the value of an option that takes classes.

    The value is one name or a list, for ``--ood`` and ``--shifted`` a mapping, or the
    place of corrupted copies; mappings in a list are returned as they are.

    Example:
        >>> class_names("--methods", "[SAM, mine.Way, {class_path: GSAM}]")
        ['SAM', 'mine.Way', '{class_path: GSAM}']
    """
    if option not in NAMED:
        return items_in(value)
    if not value.startswith("{"):
        return []
    return [
        str(item.get("class_path")) if isinstance(item, dict) else str(item)
        for item in json.loads(value).values()
    ]


def _with_model(words: list[str]) -> list[str]:
    """Name the default model where only its options are written."""
    options = [word.partition("=")[0] for word in words]
    if "--model" in options or "--config" in options:
        return words
    places = (n for n, option in enumerate(options) if option.startswith("--model."))
    first = next(places, len(words))
    if first == len(words):
        return words
    of_rows = any(option in OPTIONS_OF_ROWS for option in options)
    named = ["--model", MODEL_OF_ROWS if of_rows else DEFAULT_MODEL]
    return [*words[:first], *named, *words[first:]]


def _value_spelled(value: str, names: Sequence[str]) -> str:
    if "{" in value:
        return value
    items = ", ".join(known_spelling(item, names) for item in items_in(value))
    return f"[{items}]" if value.startswith("[") else items


def _underscored(word: str) -> str:
    if not word.startswith("--"):
        return word
    option, equals, value = word[2:].partition("=")
    return f"--{option.replace('-', '_')}{equals}{value}"


def items_in(text: str) -> list[str]:
    """Split a list written with brackets, commas or blanks; leave mappings whole."""
    if "{" in text or is_call(text):
        return parted(text.strip().removeprefix("[").removesuffix("]"))
    return text.strip("[] ").replace(",", " ").split()
