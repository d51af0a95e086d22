"""What is set before tests import torch or Triton, and what is not left to chance."""

import os
import random

# Bits depend on the number of threads; processes that tests start inherit it.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from packages import COMPLETE, imported

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
if COMPLETE:
    pytest.importorskip = imported

# Examples are the same in every run, on machines of any speed. To look for others:
# --hypothesis-profile=default.
settings.register_profile(
    "steady",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("steady")


class Seeded:
    """Draws of a test that come from global streams do not follow from those before."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self):
        torch.manual_seed(0)
        np.random.seed(0)
        random.seed(0)


def pytest_configure(config):
    """Reach examples of docstrings too, which lie elsewhere."""
    config.pluginmanager.register(Seeded())


def pytest_collection_modifyitems(items):
    """Let the exam come first: whether the product still does what it did."""
    items.sort(key=lambda item: "exam" not in item.path.parts)


def pytest_itemcollected(item):
    """Refuse names that differ between the processes that share the tests."""
    if " at 0x" in item.nodeid:
        raise pytest.UsageError(
            f"{item.nodeid} must not hold a memory address: give the cases ids"
        )
