"""What must be set before any test imports torch or Triton, and names of tests."""

import os

# Bits depend on the number of threads; processes that tests start inherit it.
os.environ["OMP_NUM_THREADS"] = "1"

import hypothesis
import pytest
import torch

from packages import COMPLETE, imported

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
if COMPLETE:
    pytest.importorskip = imported
# No test fails since the machine had something else to do.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


def pytest_itemcollected(item):
    """Refuse names that differ between the processes that share the tests."""
    if " at 0x" in item.nodeid:
        raise pytest.UsageError(
            f"{item.nodeid} must not hold a memory address: give the cases ids"
        )
