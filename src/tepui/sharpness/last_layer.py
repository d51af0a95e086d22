"""The last linear layer of a model: its inputs and its outputs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from tepui.core.checks import require
from tepui.data.arrays import Inputs
from tepui.modules.last_linear import classifier_of
from tepui.modules.running import forward


@contextmanager
def features_and_logits(
    model: nn.Module,
) -> Iterator[Callable[[Inputs], tuple[Tensor, Tensor]]]:
    """Give a function that returns the last layer's inputs and outputs."""
    layer = classifier_of(model)
    seen: list[tuple[Tensor, Tensor]] = []

    def note(_layer: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
        seen.append((arguments[0], output))

    def pass_through(inputs: Inputs) -> tuple[Tensor, Tensor]:
        seen.clear()
        with torch.no_grad():
            outputs = forward(model, inputs)
        shapes = [tuple(output.shape) for _, output in seen]
        once = shapes == [tuple(outputs.shape)] and outputs.ndim == 2
        rule = "end in one use of its last linear layer, on (samples, features)"
        require(once, "model", rule, shapes)
        return seen[0]

    handle = layer.register_forward_hook(note)
    try:
        yield pass_through
    finally:
        handle.remove()
