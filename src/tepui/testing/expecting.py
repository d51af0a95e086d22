"""How a broken promise is reported: the thing, the rule, and what was seen."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import Tensor

REFUSALS = (RuntimeError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True)
class Subject:
    """The thing that is checked, by its name."""

    name: str

    def must(self, rule: str, holds: bool, seen: object) -> None:
        """Raise an ``AssertionError`` that names thing, rule and what was seen.

        Example:
            >>> Subject("margin").must("return a scalar", False, "shape (3,)")
            Traceback (most recent call last):
            AssertionError: margin must return a scalar, got shape (3,)
        """
        if not holds:
            raise AssertionError(f"{self.name} must {rule}, got {seen}")

    def must_agree(
        self,
        rule: str,
        actual: Sequence[Tensor],
        expected: Sequence[Tensor],
        *,
        rtol: float = 1e-5,
        atol: float = 1e-6,
    ) -> None:
        """Raise unless tensors agree up to rounding, NaN included."""
        try:
            torch.testing.assert_close(
                tuple(actual), tuple(expected), rtol=rtol, atol=atol, equal_nan=True
            )
        except AssertionError as error:
            details = " ".join(str(error).split())
            raise AssertionError(f"{self.name} must {rule}: {details}") from None

    def must_take(self, call: str, function: Any, *args: Any, **named: Any) -> None:
        """Raise unless a function can be called with such arguments."""
        with self.must_manage(f"be callable as {call}"):
            try:
                known = signature(function)
            except ValueError:  # some built-in functions do not say what they take
                return
            known.bind(*args, **named)

    @contextmanager
    def must_manage(self, rule: str) -> Iterator[None]:
        """Report an error in the block as a broken promise."""
        try:
            yield
        except REFUSALS as error:
            seen = f"{type(error).__name__}: {error}"
            raise AssertionError(f"{self.name} must {rule}, got {seen}") from error

    @contextmanager
    def must_keep_generators(self) -> Iterator[None]:
        """Raise unless the block leaves Python's, numpy's and torch's alone."""
        before = _generator_states()
        yield
        after = _generator_states()
        moved = [name for name in before if after[name] != before[name]]
        rule = "draw from the generators it is given and leave global ones alone"
        self.must(rule, not moved, f"draws from that of {', '.join(moved)}")


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
