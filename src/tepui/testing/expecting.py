"""How a broken promise is told: the thing, the rule, and what was seen."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor


def expect(condition: bool, subject: str, rule: str, seen: object) -> None:
    """Raise an ``AssertionError`` that names thing, rule and what was seen.

    Example:
        >>> expect(False, "margin", "return a scalar", "a tensor of shape (3,)")
        Traceback (most recent call last):
        AssertionError: margin must return a scalar, got a tensor of shape (3,)
    """
    if not condition:
        raise AssertionError(f"{subject} must {rule}, got {seen}")


def expect_close(
    actual: Sequence[Tensor],
    expected: Sequence[Tensor],
    subject: str,
    rule: str,
    *,
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> None:
    """Raise an ``AssertionError`` unless tensors agree up to rounding, NaN included."""
    try:
        torch.testing.assert_close(
            tuple(actual), tuple(expected), rtol=rtol, atol=atol, equal_nan=True
        )
    except AssertionError as error:
        details = " ".join(str(error).split())
        raise AssertionError(f"{subject} must {rule}: {details}") from None


@contextmanager
def global_generators_kept(subject: str) -> Iterator[None]:
    """Raise unless a block leaves Python's, numpy's and torch's generators alone."""
    before = _generator_states()
    yield
    moved = [
        name for name, state in _generator_states().items() if state != before[name]
    ]
    rule = "draw from the generators it is given and leave global ones alone"
    expect(not moved, subject, rule, f"draws from that of {', '.join(moved)}")


def name_of(function: Callable[..., Any]) -> str:
    """Return what a function is called, also under ``functools.partial``."""
    inner = getattr(function, "func", function)
    return str(getattr(inner, "__name__", repr(inner)))


def _generator_states() -> dict[str, object]:
    kind, keys, *rest = np.random.get_state()
    return {
        "random": random.getstate(),
        "numpy": (kind, np.asarray(keys).tolist(), *rest),
        "torch": torch.get_rng_state().tolist(),
    }
