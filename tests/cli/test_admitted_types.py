"""The list of what a configuration may name, against all of tepui and all types."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from jsonargparse import ArgumentError, ArgumentParser
from torch import Tensor
from torch.nn import Module
from torch.utils.data import Dataset

import tepui
from tepui import losses, methods
from tepui.cli.admission import admitting, listed
from tepui.cli.known import known_classes
from tepui.cli.main import COMMANDS, LEFT_OUT, SPECIFICATIONS
from tepui.cli.train import train
from tepui.data import Augmentation
from tepui.data.arrays import Arrays
from tepui.data.image_files import ImageFiles
from tepui.studies import Ray, Slurm
from tepui.training import SGD, AdamW, Schedule


def callables():
    """Yield the path of every class and function of tepui, in each of its modules."""
    for found in pkgutil.walk_packages(tepui.__path__, "tepui."):
        if found.name == "tepui.__main__":
            continue
        try:
            module = importlib.import_module(found.name)
        except ImportError:
            continue
        for name, item in vars(module).items():
            if (getattr(item, "__module__", None) or "").startswith("tepui"):
                yield f"{found.name}.{name}"


def attributes():
    """Yield the path of all that classes of the list hold, one path per class."""
    for kind, path in {kind: path for path, kind in listed().items()}.items():
        yield from (f"{path}.{name}" for name in {*vars(kind), *dir(type(kind))})


def takes(kind):
    """Return a function that says whether an option of a type takes a value.

    Where plain words are taken beside classes, they name none and are left out.
    """
    kinds = [k for k in get_args(kind) if k is not str]
    if len(kinds) < len(get_args(kind)) and get_origin(kind) in (Union, UnionType):
        kind = Union[tuple(kinds)]  # noqa: UP007 - made of a list
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--value", type=kind)

    def accepted(value):
        try:
            parser.parse_object({"value": value})
        except ArgumentError:
            return False
        return True

    return accepted


@pytest.mark.slow
def test_of_all_that_tepui_holds_only_the_list_can_be_named():
    known, accepted = listed(), takes(type | Callable)
    paths = {*callables(), *attributes()}
    assert {"tepui.core.storage.write_json", "tepui.methods.sam.SAM.mro"} < paths
    with admitting(known):
        assert {path for path in paths if accepted(path)} == known.keys() & paths
    with admitting({}):
        assert not any(accepted(path) for path in known)


def test_the_list_is_what_options_offer():
    offered = {kind for kinds in known_classes().values() for kind in kinds}
    assert {*listed().values()} == offered | {tepui.Prune, tepui.EarlyStopping}
    assert all(inspect.isclass(kind) for kind in offered)
    assert not any(inspect.isabstract(kind) for kind in offered)
    for path, kind in listed().items():
        module, _, name = path.rpartition(".")
        assert getattr(importlib.import_module(module), name) is kind


# The types that options and constructors take.

PLAIN = (int, float, str, bool, NoneType, Path)
BASES = {methods.Method, Schedule, Augmentation, Dataset, Module}
BASES |= {
    SGD,
    AdamW,
    tepui.Prune,
    tepui.EarlyStopping,
    methods.SAM,
    methods.GSAM,
    methods.SharpnessAware,
}
BASES |= {losses.CrossEntropy, losses.BinaryCrossEntropy, losses.MSE}
BASES |= {losses.GaussianNLL, losses.Quantiles}
# Data sets of these kinds are in the list; they themselves hold what Python gives them.
BASES |= {Arrays, ImageFiles}
# What a callable that scores samples returns: only Python can pass one.
UNNAMED = {Tensor}
# Groups of options, told by their fields.
GROUPS = (Ray, Slurm)


def leaves(kind):
    """Yield the classes in an annotation, without those of plain values."""
    if get_origin(kind) is Literal or kind in (*PLAIN, *GROUPS, Any, Ellipsis):
        return
    if get_origin(kind) is Dataset:
        yield Dataset
    elif get_origin(kind) is not None and get_origin(kind) is not type:
        arguments = get_args(kind)
        if isinstance(arguments[0], list):
            arguments = arguments[1:]
        for argument in arguments:
            yield from leaves(argument)
    else:
        yield kind


def annotations():
    """Return every annotation that a configuration reaches, and who takes it."""
    waiting, found, seen = [*SPECIFICATIONS], {}, set()
    waiting += [command for command, _ in COMMANDS.values()]
    elsewhere = LEFT_OUT["train"] | {*inspect.signature(train).parameters}
    while waiting:
        owner = waiting.pop()
        if owner in seen:
            continue
        seen.add(owner)
        function = owner.__init__ if inspect.isclass(owner) else owner
        function = getattr(owner, "wrapped_function", function)
        for name, kind in get_type_hints(function).items():
            if owner in SPECIFICATIONS and name in elsewhere:
                continue
            if name != "return" and (kinds := tuple(leaves(kind))):
                found.setdefault(kind, []).append(f"{owner.__name__}.{name}")
                waiting += [k for k in listed().values() if issubclass(k, kinds)]
    return found, seen


@pytest.mark.parametrize("group", GROUPS)
def test_groups_of_options_hold_plain_values(group):
    fields = get_type_hints(group)
    assert fields
    assert not [leaf for kind in fields.values() for leaf in leaves(kind)]


@pytest.mark.slow
def test_every_type_that_a_configuration_reaches_takes_only_the_list():
    found, seen = annotations()
    assert {*listed().values()} < seen
    assert {leaf for kind in found for leaf in leaves(kind)} == BASES | UNNAMED
    known = listed()
    tried = [*known, *ATTEMPTED]
    with admitting(known):
        for kind in found:
            bases = tuple({*leaves(kind)} - UNNAMED)
            wanted = {path for path in known if issubclass(known[path], bases)}
            accepted = takes(kind)
            named = {path for path in tried if any(map(accepted, spellings(path)))}
            assert named <= wanted, (kind, found[kind])
            assert named or not bases


ATTEMPTED = [
    "os.system",
    "builtins.eval",
    "torch.load",
    "torch.nn.Flatten",
    "torch.Tensor",
    "tepui.core.storage.write_json",
    "tepui.cli.main.main",
    "tepui.data.Arrays",
    "tepui.sharpness.fisher_trace",
    "tepui.methods.SharpBalance.paper",
    "tepui.methods.SharpBalance.base",
]


def spellings(path):
    """Return the values that could name a class, for any type."""
    spec = {"class_path": path}
    return path, spec, [path], [spec], {"a": path}, {"a": spec}
