"""Hypothesis strategies shared by the tests, and the one naive twin all need."""

import math

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

RULES = ("probability", "logit", "vote")

modest = settings(max_examples=30, deadline=None)


@st.composite
def ensembles(draw: st.DrawFn, min_members: int = 1) -> Tensor:
    """Float64 logits (members, samples, classes): mild, steep or saturated, no ties."""
    members = draw(st.integers(min_members, 5), "members")
    shape = (members, draw(st.integers(1, 7)), draw(st.integers(2, 6)))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32 - 1)))
    noise = torch.randn(shape, generator=generator, dtype=torch.float64)
    steepness = draw(st.sampled_from([0.1, 1.0, 10.0, "saturated"]))
    if steepness != "saturated":
        return steepness * noise
    return 50.0 * torch.randint(-1, 2, shape, generator=generator) + 0.1 * noise


@st.composite
def labeled_ensembles(draw: st.DrawFn, min_members: int = 1) -> tuple[Tensor, Tensor]:
    """Logits as above and labels (samples,) that need not match them."""
    logits = draw(ensembles(min_members=min_members))
    _, samples, classes = logits.shape
    label = st.integers(0, classes - 1)
    labels = draw(st.lists(label, min_size=samples, max_size=samples))
    return logits, torch.tensor(labels)


def softmax_naive(row: list[float]) -> list[float]:
    """Softmax from its definition; float64 holds e to the power of 50."""
    total = sum(math.exp(value) for value in row)
    return [math.exp(value) / total for value in row]


def probs_naive(logits: Tensor) -> list[list[list[float]]]:
    """Every member's softmax as nested lists."""
    return [[softmax_naive(row) for row in member] for member in logits.tolist()]


def close(actual: Tensor, expected: object, *, atol: float = 1e-12) -> None:
    """Assert that a float64 result equals numbers computed another way."""
    expected = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual, expected, rtol=1e-11, atol=atol, equal_nan=True)
