"""Empty names in place of torchvision, where it cannot be loaded.

Two peers import torchvision at their top for data sets, transforms and pictures, none
of which an ensemble on tables needs. On machines without a torchvision that fits the
installed torch these names let them be imported; using one does nothing of its own.
"""

import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec


class _Names(type):
    """Classes with any attribute, each an empty class of that name."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Names(name, (), {})


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torchvision":
            return ModuleSpec(name, self, is_package=True)
        return None

    def exec_module(self, module):
        module.__version__ = "0.0"
        module.__getattr__ = _Names.__getattr__.__get__(_Names("names", (), {}))


def stand_in_for_torchvision():
    """Return whether torchvision is missing and stood in for."""
    if importlib.util.find_spec("torchvision") is not None:
        return False
    sys.meta_path.append(_Finder())
    return True
