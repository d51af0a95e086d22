"""What holds for all tests of training."""

import pytest
import torch

from training.cases import one_thread

single = pytest.fixture(autouse=True)(one_thread)


@pytest.fixture(autouse=True)
def _repeatable_products(monkeypatch):
    """Let a GPU multiply matrices alike each time, as deterministic runs ask."""
    if torch.cuda.is_available():
        monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
