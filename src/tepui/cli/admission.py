"""Which classes a configuration may name.

A name from outside is looked up in a list, never imported for its own sake. The list
holds those of tepui's classes that options offer, and for one command what its command
line names by exact path: classes of the user's own, and functions that make models or
data sets. Everything else is refused before it is imported, let alone called: other
functions and classes of tepui, the rest of the user's package, attributes of what is
in the list.
"""

import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, get_args

from jsonargparse import Namespace, set_parsing_settings
from torch.nn import Module
from torch.utils.data import Dataset

from tepui.cli.importing import imported
from tepui.cli.known import KnownLoss, known_classes
from tepui.cli.parsing import NAMED, class_names, list_of, options_of
from tepui.core.checks import require
from tepui.data import Augmentation
from tepui.methods import Method
from tepui.modules.pruning import Prune
from tepui.training import SGD, AdamW, EarlyStopping, Schedule

# What options expect: a class of the list that derives from one of these.
LOSSES = get_args(KnownLoss)
BASES = (Method, Schedule, Augmentation, SGD, AdamW, *LOSSES, Dataset, Module)
# Options whose value is called later, so that a function may take a class's place.
MADE_LATER = ("--model", "--data", "--validation", "--unlabeled", *NAMED)

# Options of one class, which the command line names beside a file that has the rest.
_OF_ONE = ("model", "data", "validation", "unlabeled", "method", "optimizer", "loss")

_CLASS_PATH = re.compile(r"class_path[\"']?\s*:\s*[\"']?([\w.]+)")
# What a parser says of a name that it refuses, and the rule in our words.
_OFFERED = "name a class that tepui offers, or one of yours that the command line names"
_SAME, _EXACT = f"{_OFFERED} by the same path", f"{_OFFERED} by its exact path"
_REFUSALS = {
    re.compile(r"Importing '(.*?)' is not allowed"): _SAME,
    re.compile(r"Import path (\S+) does not correspond to a subclass of \w+"): (
        "name a class of the kind that belongs there"
    ),
    re.compile(r"Expected a dot import path string: (.*)"): "name a class of tepui",
    re.compile(r"Unexpected import path format: (.*)"): _EXACT,
}
_OF_ONE_CLASS = "- Problem with given class_path"
_OF_ANOTHER = re.compile(
    r"Import path \S+ does not correspond to a subclass of \w+"
    r"|Expected a dot import path string: \w+"
)
_KEY = re.compile(r'Parser key "([^"]+)"')


def listed() -> dict[str, type]:
    """Return tepui's classes that a configuration may name, by each of their paths."""
    kinds = [*chain.from_iterable(known_classes().values()), Prune, EarlyStopping]
    return {path: kind for kind in kinds for path in _paths(kind)}


def named_by_user(arguments: Sequence[str]) -> dict[str, object]:
    """Import what the command line itself names beside the list.

    Classes and functions come by each path that leads to them: the one that was
    written, where they are defined, and the packages between that offer them.
    """
    offered = listed()
    pairs = [(list_of(option), value) for option, value in options_of(arguments)]
    written = {
        path: option
        for option, value in pairs
        for path in _named_in(option, value)
        if path not in offered
    }
    items = {path: _admissible(option, path) for path, option in written.items()}
    for path, item in items.items():
        _check_free_of_options(item, written[path], pairs)
    packages = {path.split(".")[0] for path in items}
    for option, value in pairs:
        if "." in option and is_path(value) and value.split(".")[0] in packages:
            items |= _inner(value)
    return items | {path: item for item in items.values() for path in _paths(item)}


@contextmanager
def admitting(items: Mapping[str, object]) -> Iterator[None]:
    """Let a parser import these items and nothing else."""
    for path, item in items.items():
        _exclude_attributes(path, item)
    set_parsing_settings(
        import_path_denylist=["*"],
        import_path_allowlist=[*items],
        subclasses_enabled=[*BASES],
        instantiate_subclass_spec_in_any=False,
    )
    try:
        yield
    finally:
        set_parsing_settings(import_path_denylist=[*items])


def check_classes(values: object, items: Mapping[str, object]) -> None:
    """Raise if parsed values would build or call something that is not in the list.

    Raises:
        ValueError: If they would, if they give arguments to a function, or further
            ones to a class that takes none.
    """
    for part in _parts(values):
        if isinstance(part, dict) and "class_path" in part:
            path = str(part["class_path"])
            rule = "name a class (a function is named without options)"
            require(inspect.isclass(items.get(path)), "class_path", rule, path)
            _check_further_arguments(items[path], part.get("dict_kwargs") or {})
        if inspect.isroutine(part):
            rule = "be named on the command line"
            require(part in items.values(), "a function", rule, part.__qualname__)


def refusal(message: str) -> str | None:
    """Return in our words why a parser refused a name; None if it refused none.

    Example:
        >>> refusal('Parser key "method": Expected a dot import path string: SMA')
        "method must name a class of tepui, got 'SMA' (did you mean 'SAM'?)"
        >>> refusal('Parser key "epochs": Expected a <class int>')
    """
    if _OF_ONE_CLASS in message:  # the others of a choice are refused for its sake
        message = _OF_ANOTHER.sub("", message)
    for pattern, rule in _REFUSALS.items():
        if match := pattern.search(message):
            key, name = ".".join(_KEY.findall(message)), match[1]
            if key == "early_stopping" and (name == "true" or name.isdigit()):
                return _patience(name)
            share = "be a share, such as 0.2, or " if key == "validation" else ""
            hint = "" if "." in name else _nearest(name)
            example = _example(key, name, rule)
            return f"{key or 'a name'} must {share}{rule}{example}, got {name!r}{hint}"
    return None


def _example(key: str, name: str, rule: str) -> str:
    """Return what to write for a class of one's own that was refused.

    Example:
        >>> _example("model", "mine.Net", _SAME)
        ', as --model mine.Net'
        >>> _example("model", "mine.nets:Net", _EXACT)
        ', such as mine.nets.Net'
    """
    if rule == _SAME:
        return f", as --{key} {name}" if key in _OF_ONE and is_path(name) else ""
    path = name.replace(":", ".")
    ours = path if is_path(path) else "mypackage.Net"
    return f", such as {ours}" if rule == _EXACT else ""


def _patience(value: str) -> str:
    """Return what to write for an end that is asked for without its options.

    Example:
        >>> _patience("3")
        "--early-stopping must be written --early-stopping.patience 3, got '3'"
    """
    epochs = value if value.isdigit() else "5"
    return (
        f"--early-stopping must be written --early-stopping.patience {epochs}, got "
        f"{value!r}"
    )


@cache
def _exclude_attributes(path: str, item: object) -> None:
    """Make an admitted path exact: by itself it would admit all that begins with it.

    That is what the class holds, and what a module of the same name does, imported or
    still in its folder.
    """
    module = sys.modules.get(path)
    names = {*dir(item), *dir(type(item)), *dir(module)}
    for folder in getattr(module, "__path__", ()):
        names |= {file.name.split(".")[0] for file in Path(folder).glob("*")}
    denied = [f"{path}.{name}" for name in names if name.isidentifier()]
    set_parsing_settings(import_path_denylist=denied)


def _named_in(option: str, value: str) -> list[str]:
    """Return the paths in an option's value that stand where a class is expected."""
    first = option.partition(".")[0]
    if first not in known_classes():
        return []
    paths = _CLASS_PATH.findall(value)
    if option == first:
        paths += class_names(option, value)
    elif option.endswith((".class_path", ".help")):
        paths.append(value)
    return [path for path in paths if is_path(path)]


def is_path(text: str) -> bool:
    """Return whether a text is the dotted path of something that can be imported."""
    return "." in text and all(part.isidentifier() for part in text.split("."))


def _admissible(option: str, path: str) -> object:
    """Import what an option names, and check that the option can take it."""
    item: object = imported(option, path, "a class")
    if option not in MADE_LATER:
        require(inspect.isclass(item), option, "name a class", path)
    rule = (
        "name a class, or a function whose signature says what it returns "
        "(such as -> nn.Module)"
    )
    require(inspect.isclass(item) or has_result(item), option, rule, path)
    return item


def _check_free_of_options(
    item: object, option: str, pairs: Sequence[tuple[str, str]]
) -> None:
    """Raise if options are written for a function, which takes none."""
    if inspect.isfunction(item):
        for other, value in pairs:
            rule = "be left out, since a function takes no options"
            require(not other.startswith(f"{option}."), other, rule, value)


def _check_further_arguments(kind: Any, given: Mapping[str, object]) -> None:
    """Raise if a class is given arguments that its signature does not take."""
    parameters = inspect.signature(kind).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    rule = f"be left out, since {kind.__name__} takes no further arguments"
    require(takes_any or not given, "dict_kwargs", rule, dict(given))


def _inner(path: str) -> dict[str, object]:
    """Return the class that an option of a user's own class may mean, if any."""
    module, _, name = path.rpartition(".")
    try:
        item = getattr(import_module(module), name, None)
    except ImportError:
        return {}
    return {path: item} if inspect.isclass(item) or inspect.isfunction(item) else {}


def has_result(item: object) -> bool:
    """Return whether a function's signature says what it returns."""
    return (
        inspect.isfunction(item)
        and inspect.signature(item).return_annotation is not inspect.Signature.empty
    )


def _paths(item: Any) -> list[str]:
    """Return the paths to a class or function in its module and the packages above."""
    parts, name = item.__module__.split("."), item.__qualname__
    modules = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return [
        f"{module}.{name}"
        for module in modules
        if getattr(sys.modules.get(module), name, None) is item
    ]


def _parts(values: object) -> Iterator[object]:
    """Yield parsed values and all that they hold, however deep."""
    if isinstance(values, Namespace):
        values = vars(values)
    yield values
    if isinstance(values, dict | list | tuple):
        for value in values.values() if isinstance(values, dict) else values:
            yield from _parts(value)


def _nearest(name: str) -> str:
    names = {kind.__name__ for kind in listed().values()}
    by_lower = {name.lower(): name for name in names}
    near = [by_lower[key] for key in get_close_matches(name.lower(), by_lower)]
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
