"""Importing timm where torchvision is missing or cannot be loaded.

timm's models use nothing of torchvision, but its modules import it, and some machines
have none that loads: the ARM wheels do not beside a torch for CPUs. There an empty
stand-in takes its place for as long as timm is imported, and is gone afterwards:
whoever asks for torchvision itself still learns that it is missing.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from types import ModuleType
from typing import Any, NoReturn

# The modules of torchvision that timm imports while it is imported itself.
MODULES = (
    "torchvision",
    "torchvision.datasets",
    "torchvision.models",
    "torchvision.models.feature_extraction",
    "torchvision.ops",
    "torchvision.ops.misc",
    "torchvision.transforms",
    "torchvision.transforms.functional",
)


class InterpolationMode(Enum):
    """The names by which timm chooses how images are resized."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


@contextmanager
def stand_in_for_torchvision() -> Iterator[None]:
    """Let modules that import torchvision be imported, whether it loads or not."""
    if _loads():
        yield
        return
    kept = _taken_out()
    sys.modules.update({name: _Empty(name) for name in MODULES})
    try:
        yield
    finally:
        _taken_out()
        sys.modules.update(kept)


class _Empty(ModuleType):
    """A module that has every class, none of which can be used."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        inner = sys.modules.get(f"{self.__name__}.{name}")
        if inner is not None:
            return inner
        if name == "InterpolationMode":
            return InterpolationMode
        made = type(name, (), {"__init__": _refuse, "__module__": self.__name__})
        setattr(self, name, made)
        return made


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    kind = type(self)
    raise ImportError(
        f"{kind.__module__}.{kind.__name__} needs torchvision, which cannot be loaded "
        "on this machine"
    )


def _loads() -> bool:
    try:
        importlib.import_module("torchvision")
    except Exception:  # a library built for another torch fails in many ways
        return False
    return True


def _taken_out() -> dict[str, ModuleType]:
    """Remove all modules of torchvision, and return what was there."""
    names = [n for n in sys.modules if n.partition(".")[0] == "torchvision"]
    return {name: sys.modules.pop(name) for name in names}
