"""One graph of plain operations for batches of any size, or a reason why not."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from tepui.data.arrays import Inputs
from tepui.export.graph import Graph


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
            raise refused(error) from error
    raise AssertionError("one way returns or raises")


def refused(error: Exception) -> ValueError:
    """Return what a tracer's complaint says, in one sentence."""
    text = next((line for line in str(error).splitlines() if line.strip()), repr(error))
    return ValueError(
        "ensemble must have members that are one graph for batches of any size (no "
        f"choice by values, no len(x) in a forward pass), but: {text.strip()}"
    )


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
    """Keep back what exporters say of themselves, which is no user's concern."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for kind in (DeprecationWarning, FutureWarning, UserWarning):
                warnings.simplefilter("ignore", kind)
            yield
    finally:
        logger.setLevel(level)
