"""The one written form of values: ``SAM(rho=0.1)``, ``ImageFolder(path="photos")``.

Methods, losses, optimizers, schedules and augmentations are frozen values; models and
data sets are classes that are called later, with arguments fixed by
:func:`functools.partial`. All of them have five functions here: how they are written,
read, kept in JSON, told apart by a digest, and what differs between two.

Text has Python's grammar of calls and literals and is never executed. A name in it is
one of :mod:`tepui.core.names`. Only text that a person typed (``own=True``) may be the
path of code of their own, ``mypackage.Net`` or ``folder/file.py:Net``, and may leave
quotes out, up to the next comma or bracket.
"""

import hashlib
import inspect
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from tepui.core.checks import one_of, require
from tepui.core.grammar import PLAIN, Call, Word, parsed
from tepui.core.limits import as_text
from tepui.core.names import EXAMPLES, PLACES, base_of, known, takes_own

# Kinds whose classes are called later, each time anew.
LATER = ("model", "data", "function")
# Kinds that functions of one's own may be of.
OF_FUNCTIONS = ("model", "function")
# Arguments that a command adds.
ADDED = ("train",)
PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+|.+\.py:[^\W\d]\w*")


def written(value: Any, hidden: Collection[str] = ()) -> str:
    """Return the text of a value, without arguments that have their defaults.

    Args:
        value: The value.
        hidden: Names of arguments that are left out at any depth.

    Example:
        >>> from tepui.methods import SAM, DeepEnsemble
        >>> from tepui.models import MLP
        >>> written(SAM(rho=0.1)), written([DeepEnsemble(), None])
        ('SAM(rho=0.1)', '[DeepEnsemble(), None]')
        >>> written(partial(MLP, hidden=[8])), written(MLP)
        ('MLP(hidden=[8])', 'MLP')
    """
    text = partial(written, hidden=hidden)
    if getattr(value, "shape", None) == ():  # a number of numpy's or torch's
        value = value.item()
    if isinstance(value, tuple):
        inside = ", ".join(map(text, value))
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return f"[{', '.join(map(text, value))}]"
    if isinstance(value, Mapping):
        pairs = (f"{text(key)}: {text(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if (given := arguments_of(value)) is not None:
        usual = {} if isinstance(value, partial) else _defaults(type(value))
        listed = map(text, given.pop(_rest(_made_by(value)), ()))
        named = (
            f"{name}={text(item)}"
            for name, item in given.items()
            if name not in hidden
            and (name not in usual or not _same(item, usual[name]))
        )
        shown = ", ".join([*listed, *named])
        return f"{path_of(_made_by(value))}({shown})"
    if isinstance(value, PLAIN):
        return repr(value)
    return path_of(value) if callable(value) else repr(str(value))


def arguments_of(value: Any, kept: str = "init") -> dict[str, Any] | None:
    """Return what a value was made with, by name; None if it is no call.

    Args:
        value: The value.
        kept: Which fields: those it is made with (``"init"``), or those that tell it
            from others (``"compare"``).
    """
    if isinstance(value, partial):
        if not value.args:
            return dict(value.keywords)
        first = inspect.signature(value.func).bind_partial(*value.args)
        return {**first.arguments, **value.keywords}
    if not is_dataclass(value) or isinstance(value, type):
        return None
    return {f.name: getattr(value, f.name) for f in fields(value) if getattr(f, kept)}


def path_of(item: Any) -> str:
    """Return the name of a class or function: its path, if it is not tepui's.

    What has no name, as an object that is called, has that of its class.

    Example:
        >>> import collections
        >>> from tepui.methods import SAM
        >>> path_of(SAM), path_of(collections.Counter)
        ('SAM', 'collections.Counter')
    """
    item = item if hasattr(item, "__qualname__") else type(item)
    module, name = item.__module__ or "", str(item.__qualname__)
    if module.partition(".")[0] in ("", "tepui"):
        return name
    # A spawned process knows the classes of its parent's script by another module.
    return f"{'__main__' if module == '__mp_main__' else module}.{name}"


def _made_by(value: Any) -> Any:
    return value.func if isinstance(value, partial) else type(value)


def _defaults(kind: type) -> dict[str, Any]:
    return {
        field.name: field.default
        if field.default_factory is MISSING
        else field.default_factory()
        for field in fields(kind)
        if (field.default, field.default_factory) != (MISSING, MISSING)
    }


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def document(value: Any) -> Any:
    """Return a value as JSON holds it, with all that tells it from others.

    Example:
        >>> from tepui.methods import SAM
        >>> document(SAM(rho=0.2))["class"], from_document(document(SAM(rho=0.2))).rho
        ('SAM', 0.2)
    """
    if (given := arguments_of(value, "compare")) is not None:
        named = {name: document(item) for name, item in given.items()}
        return {"class": path_of(_made_by(value)), **named}
    if isinstance(value, type):
        return {"class": path_of(value)}
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, Mapping):
        return {str(name): document(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [document(item) for item in value]
    return path_of(value) if callable(value) else str(value)


def from_document(stored: Any) -> Any:
    """Return the value of a document: of classes of the table, and no others.

    Raises:
        ValueError: If it names code of one's own, or what a class does not take.
    """
    if isinstance(stored, list):
        return [from_document(item) for item in stored]
    if not isinstance(stored, Mapping):
        return stored
    if "class" not in stored:
        return {name: from_document(item) for name, item in stored.items()}
    name = stored["class"]
    rule = "be a class of tepui's in a file; type the path of your own code instead"
    kind = next((kind for kind, places in PLACES.items() if name in places), None)
    if kind is None:
        raise ValueError(f"class must {rule}, got {name!r}")
    given = {n: from_document(item) for n, item in stored.items() if n != "class"}
    return _called(known(kind, name), kind, given)


def digest(value: Any) -> str:
    """Return what tells a value from all others."""
    return hashlib.sha256(as_text(document(value)).encode()).hexdigest()


def read(
    text: str, kind: str, *, own: bool = False, also: Collection[type] = ()
) -> Any:
    """Return the value of a text; models and data sets as what makes them.

    Args:
        text: What was written.
        kind: What it must be: a kind of :data:`tepui.core.names.PLACES`, or
            ``"function"``, which is always of one's own. A list has several of it.
        own: Whether a person typed it, who may name their own code and leave out
            quotes.
        also: Further classes that text may name by their paths, which are loaded.

    Raises:
        ValueError: If it is not written as a value is, or names what is not known or
            is of another kind; nothing of that is called.

    Example:
        >>> read("SAM(rho=0.1)", "method").rho
        0.1
        >>> read("Table(path=data/own.csv, target=age)", "data", own=True).keywords
        {'path': 'data/own.csv', 'target': 'age'}
        >>> read("[SAM, SAM(rho=0.2)]", "method")[1].rho
        0.2
        >>> read("SAM(rh=0.1)", "method")
        Traceback (most recent call last):
        ValueError: argument of SAM must be one of average, rho, adaptive, \
update_statistics, start_at, got 'rh' (did you mean 'rho'?)
    """
    tree = parsed(text, kind, own=own)
    for item in also:
        if isinstance(tree, Call) and tree.name == path_of(item):
            return _called(item, kind, _bound(item, tree, own))
    return _of_kind(tree, kind, own)


def read_argument(text: str, name: str) -> Any:
    """Return what a text says of an argument of any kind, by the table alone.

    Example:
        >>> read_argument("(64, 'auto', [SAM(rho=0.1)])", "hidden")[0]
        64
    """
    return _argument(parsed(text, name), name, None, own=False)


def imported(path: str, argument: str) -> Any:
    """Import what a person named by its path, as ``python -m`` would find it.

    Example:
        >>> imported("tepui.metrics.aurc", "metrics").__name__
        'aurc'
    """
    file, _, name = path.rpartition(":")
    module, folder = Path(file).stem, Path(file).parent.absolute()
    if not file:
        (module, _, name), folder = path.rpartition("."), Path.cwd()
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        found = import_module(module)
        place = Path(file).absolute().resolve()
        if file and Path(found.__file__ or "").resolve() != place:
            raise ImportError(f"{module} is {found.__file__}")
        return getattr(found, name)
    except (Exception, SystemExit) as error:
        raise ValueError(
            f"{argument} must name what can be imported, got {path!r} "
            f"({type(error).__name__}: {error})"
        ) from error


def _of_kind(tree: Any, kind: str, own: bool) -> Any:
    """Return what a tree means, if it is of a kind."""
    if isinstance(tree, list | tuple) and not isinstance(tree, Call):
        return [_of_kind(item, kind, own) for item in tree]
    call = Call(tree, [], {}) if isinstance(tree, Word) else tree
    if not isinstance(call, Call):
        require(False, kind, f"be written such as {EXAMPLES[kind]}", tree)
    if call.name in PLACES.get(kind, ()) or not (kind == "function" or takes_own(kind)):
        item = known(kind, call.name)
    else:
        bases = () if kind == "function" else (base_of(kind),)
        item = _own_item(call.name, kind, own, bases, kind in OF_FUNCTIONS)
    return _called(item, kind, _bound(item, call, own))


def _own_item(
    path: str, argument: str, own: bool, bases: tuple[type, ...], functions: bool
) -> Any:
    """Import a class or function of one's own; neither is called."""
    if not PATH.fullmatch(path):
        one_of(argument, path, PLACES.get(argument, ()))
    rule = "be of tepui's own in a file; type the path of your own code instead"
    require(own, argument, rule, path)
    item = imported(path, argument)
    if isinstance(item, type):
        fits = bool(bases) and issubclass(item, bases) and item not in bases
        fits = fits and not inspect.isabstract(item)
    else:
        fits = functions and (inspect.isfunction(item) or isinstance(item, partial))
    names = " or ".join(kind.__name__ for kind in bases)
    rule = f"be a class derived from {names}" if bases else "be a function"
    require(fits, argument, rule, path)
    return item


def _called(item: Any, kind: str, given: dict[str, Any]) -> Any:
    """Call a class, unless it is one to call later or a function."""
    name = getattr(item, "__name__", str(item))
    hints = _hints(item)
    given = {key: _suited(value, hints.get(key)) for key, value in given.items()}
    if kind in LATER or not isinstance(item, type):
        from tepui.core.types import check_types  # which imports torch

        check_types(_signed(item), given)
        return partial(item, **given) if given else item
    missing = [key for key in _required(item) if key not in given]
    require(not missing, name, f"be given {' and '.join(missing)}", written(given))
    return item(*given.pop(_rest(item), ()), **given)


def _bound(item: Any, call: Call, own: bool) -> dict[str, Any]:
    """Return the arguments of a call by name, each with its value."""
    parameters = inspect.signature(item).parameters
    free = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    names = [n for n, p in parameters.items() if p.kind not in SEVERAL]
    rule, rest = f"have at most {len(names)} arguments", _rest(item)
    fits = bool(rest) or len(call.positional) <= len(names)
    require(fits, call.name, rule, len(call.positional))
    given: dict[str, Any] = dict(zip(names, call.positional, strict=False))
    if rest:
        given[rest] = call.positional[len(names) :]
    for name in call.keywords:
        require(name not in given, call.name, f"be given {name} once", "twice")
        if not free:
            one_of(f"argument of {call.name}", name, names)
    hints = _hints(item)
    return {
        name: _argument(value, name, hints.get(name), own)
        for name, value in {**given, **call.keywords}.items()
    }


def _argument(tree: Any, name: str, hint: Any, own: bool) -> Any:
    """Return what an argument means: a value by name, or text."""
    if isinstance(tree, dict):
        return {key: _argument(item, name, hint, own) for key, item in tree.items()}
    if isinstance(tree, list | tuple) and not isinstance(tree, Call):
        return type(tree)(_argument(item, name, hint, own) for item in tree)
    if not isinstance(tree, Word | Call):
        return tree
    called = tree.name if isinstance(tree, Call) else str(tree)
    inside = [*_inside(hint)]
    kind = next((kind for kind, places in PLACES.items() if called in places), None)
    text = str in inside or Path in inside
    bare = isinstance(tree, Word) and not PATH.fullmatch(tree)
    if isinstance(tree, Word) and (text or (own and bare and kind is None)):
        require(own, name, "be quoted", called)
        return str(tree)
    if kind is not None:
        return _of_kind(tree, kind, own)
    bases = tuple(item for item in inside if isinstance(item, type))
    rule = "be a value such as SAM(rho=0.1), 0.1, or a quoted text"
    require(bool(PATH.fullmatch(called)), name, rule, called)
    item = _own_item(called, name, own, bases, functions=not bases)
    call = tree if isinstance(tree, Call) else Call(called, [], {})
    return _called(item, name, _bound(item, call, own))


SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _rest(item: Any) -> str:
    """Return which argument of a value's class takes those without names, if any."""
    made = isinstance(item, type) and is_dataclass(item)
    parameters = inspect.signature(item).parameters.items() if made else ()
    return next((name for name, p in parameters if p.kind is p.VAR_POSITIONAL), "")


def _required(item: Any) -> list[str]:
    parameters = inspect.signature(item).parameters.items()
    return [
        name
        for name, p in parameters
        if p.default is p.empty and p.kind not in SEVERAL and name not in ADDED
    ]


def _signed(item: Any) -> Any:
    """Return the function whose signature a call of a class or function has."""
    return vars(item).get("__init__", item.__init__) if inspect.isclass(item) else item


def _hints(item: Any) -> dict[str, Any]:
    try:
        return get_type_hints(_signed(item))
    except (NameError, TypeError):  # annotations that cannot be resolved from outside
        return {}


def _inside(hint: Any) -> Iterator[Any]:
    """Yield the types that an annotation is made of."""
    inner = get_args(hint)
    if not inner:
        yield hint
    for part in inner:
        yield from _inside(part)


def _suited(value: Any, hint: Any) -> Any:
    """Return a value as the tuple, list of one, or path that an annotation asks for.

    Example:
        >>> _suited([1, 2], tuple[int, ...] | None), _suited([1], list[int])
        ((1, 2), [1])
        >>> _suited("a", Sequence[str]), _suited("a", str | Sequence[str])
        (('a',), 'a')
    """
    shown = str(hint)
    parts = () if hint is None else get_args(hint | None)  # of a union, or itself
    if isinstance(value, str) and str not in parts:
        lists = (part for part in parts if get_origin(part) in (tuple, list, Sequence))
        value = (value,) if any(str in get_args(part) for part in lists) else value
    if isinstance(value, list) and "tuple[" in shown and "list[" not in shown:
        return tuple(_suited(x, hint) if isinstance(x, list) else x for x in value)
    if isinstance(value, str) and Path in (inside := [*_inside(hint)]):
        return value if str in inside else Path(value)
    return value


def check_same(documents: Sequence[Mapping[str, Any]]) -> None:
    """Raise if the documents of some ranks differ, naming the first difference.

    Example:
        >>> check_same([{"data": {"samples": 9}}, {"data": {"samples": 8}}])
        Traceback (most recent call last):
        ValueError: data.samples must be the same on all ranks, got 9 on rank 0 and 8 on rank 1
    """  # noqa: E501 - a doctest must show the whole message
    for rank, document in enumerate(documents):
        for name, (one, value) in differences(documents[0], document).items():
            raise ValueError(
                f"{name} must be the same on all ranks, got {one!r} on rank 0 and "
                f"{value!r} on rank {rank}"
            )


def differences(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """Return what two documents hold that is not the same, by the way to it.

    Example:
        >>> one, other = {"method": {"rho": 1, "p": 2}}, {"method": {"rho": 3, "p": 2}}
        >>> differences(one, other)
        {'method.rho': (1, 3)}
    """
    ones, others = dict(leaves(first)), dict(leaves(second))
    return {
        name: (ones.get(name), others.get(name))
        for name in {**ones, **others}
        if ones.get(name) != others.get(name)
    }


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what a document holds, named by the way to it."""
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, item in value.items():
        yield from leaves(item, f"{name}.{key}" if name else str(key))
