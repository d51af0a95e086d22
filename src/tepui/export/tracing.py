"""One graph of plain operations for batches of any size, or a reason why not."""

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

import torch
from torch import Tensor

from tepui.data.arrays import Inputs
from tepui.export.graph import Graph

ONE_GRAPH = (
    "be one graph for batches of any size (no choice by values, no len(x) in a forward "
    "pass)"
)


def traced(graph: Graph, inputs: Inputs) -> torch.export.ExportedProgram:
    """Return a graph of plain operations for batches of any size.

    Raises:
        ValueError: If the members do what no graph can hold.
    """
    free = [_free_axes(inputs, tokens) for tokens in (True, False)]
    ways = free if free[0] != free[1] else free[:1]
    for shapes in ways:
        try:
            with torch.no_grad(), quiet():
                return torch.export.export(
                    graph, (inputs,), dynamic_shapes=(shapes,), strict=False
                )
        except Exception as error:
            if shapes is not ways[-1]:
                continue
            raise refused(ONE_GRAPH, error) from error
    raise AssertionError("one way returns or raises")


def refused(rule: str, error: BaseException) -> ValueError:
    """Return what a tracer complains of at bottom, in one sentence."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = (line.strip() for line in str(error).splitlines())
    reason = next(filter(None, lines), repr(error))
    return ValueError(f"members must {rule}, but: {reason}")


def _free_axes(inputs: Inputs, tokens: bool) -> object:
    """Return which axes may have any length: samples, and of whole numbers tokens."""
    batch = torch.export.Dim("batch", min=1)

    def axes(tensor: Tensor) -> dict[int, object]:
        widths = tokens and tensor.ndim == 2 and tensor.dtype == torch.int64
        return {0: batch, 1: torch.export.Dim.AUTO} if widths else {0: batch}

    if isinstance(inputs, Tensor):
        return axes(inputs)
    return {name: axes(tensor) for name, tensor in inputs.items()}


@contextmanager
def quiet() -> Iterator[None]:
    """Keep back what exporters say of themselves; what fails is told by its error."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
