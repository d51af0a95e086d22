"""Importing libraries where torchvision is missing or cannot be loaded.

timm's models use nothing of torchvision, but its modules import it, and some machines
have none that loads: the ARM wheels do not beside a torch for CPUs. There an empty
stand-in takes its place for as long as timm is imported, and is gone afterwards:
whoever asks for torchvision itself still learns that it is missing.
"""

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

NAME = "torchvision"


@contextmanager
def stand_in_for_torchvision() -> Iterator[None]:
    """Let modules that import torchvision be imported, whether it loads or not."""
    if _loads():
        yield
        return
    kept, finder = _taken_out(), _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _taken_out()
        sys.modules.update(kept)


class _Finder(MetaPathFinder, Loader):
    """Finds every module of torchvision, all of them empty."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        found = fullname.partition(".")[0] == NAME
        return ModuleSpec(fullname, self, is_package=True) if found else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Empty(ModuleType):
    """A module that has every class, none of which can be used."""

    def __getattr__(self, name: str) -> Any:
        return _made(self, self.__name__, name)


class _Unusable(type):
    """A class that has every attribute, each such a class."""

    def __getattr__(cls, name: str) -> Any:
        return _made(cls, f"{cls.__module__}.{cls.__name__}", name)


def _made(holder: Any, place: str, name: str) -> _Unusable:
    """Return a class of this name, which its holder keeps."""
    if name.startswith("__"):
        raise AttributeError(name)
    made = _Unusable(name, (), {"__init__": _refuse, "__module__": place})
    setattr(holder, name, made)
    return made


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    kind = type(self)
    raise ImportError(
        f"{kind.__module__}.{kind.__name__} needs torchvision, which cannot be loaded "
        "on this machine"
    )


def _loads() -> bool:
    try:
        importlib.import_module(NAME)
    except Exception:  # a library built for another torch fails in many ways
        return False
    return True


def _taken_out() -> dict[str, ModuleType]:
    """Remove all modules of torchvision, and return what was there."""
    names = [name for name in sys.modules if name.partition(".")[0] == NAME]
    return {name: sys.modules.pop(name) for name in names}
