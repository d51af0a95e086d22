"""Importing what tests need: what is missing skips a test, or fails it."""

import importlib
import os
from importlib.util import find_spec

import pytest

# Set by make test-ecosystem, which installs every package that a test asks for.
COMPLETE = "TEPUI_ECOSYSTEM" in os.environ
# There is no Ray for some machines, and no torchvision that loads for others.
NOT_EVERYWHERE = ("ray", "torchvision")


def imported(name, minversion=None, **how):
    """Stand in for ``pytest.importorskip`` where nothing may be missing."""
    whole = name.partition(".")[0]
    if whole in NOT_EVERYWHERE and find_spec(whole) is None:
        pytest.skip(f"there is no {whole} for this machine")
    return importlib.import_module(name)
