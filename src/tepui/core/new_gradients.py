"""Gradients of a pass that starts from none, and words for those that do not."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch.autograd.graph import get_gradient_edge
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils.weak import TensorWeakRef

NOT_BACKPROPAGATED = (
    "closure must backpropagate, but it left no new gradient: give step a closure "
    "that zeroes gradients, backpropagates and returns the loss (in Lightning's manual "
    "optimization step(closure=...), since step() alone hands over an empty one), or "
    "backpropagate before first_step and again before second_step"
)


def is_sharded(parameter: Tensor) -> bool:
    """Return whether a parameter is a wrapper around a part of it, as DTensor is."""
    return bool(is_traceable_wrapper_subclass(parameter))


@contextmanager
def gradients_begun_anew(parameters: Iterable[Tensor]) -> Iterator[None]:
    """Refuse a block that adds to gradients from before it, or makes none.

    A gradient is old if, when the block adds to it, it is the same object as before,
    was not written to, and is not zero. Values are read only where the rest holds, so
    that no GPU is waited for; references are weak, so that zeroing frees memory. What
    fully_shard adds to a gradient passes no node of it: there, one that is the same
    object after the block is old.
    """
    kept: list[Tensor] = []
    reached: list[Tensor] = []
    parameters = list(parameters)
    sharded = [
        (p, TensorWeakRef(p.grad))
        for p in parameters
        if is_sharded(p) and p.grad is not None
    ]

    def watch(parameter: Tensor, gradient: Tensor) -> tuple[Any, Any]:
        reference, version = TensorWeakRef(gradient), gradient._version

        def before_adding(_: Any) -> None:
            reached.append(parameter)
            there = parameter.grad
            if there is None or there is not reference() or there._version != version:
                return
            if there.any():
                kept.append(parameter)

        # Torch keeps the node, and the hook on it, only while somebody holds it.
        node = get_gradient_edge(parameter).node
        return node, node.register_prehook(before_adding)

    trained = [
        (p, p.grad)
        for p in parameters
        if p.requires_grad and p.grad is not None and not is_sharded(p)
    ]
    before = [
        (p, TensorWeakRef(gradient), gradient._version) for p, gradient in trained
    ]
    watched = [watch(p, gradient) for p, gradient in trained]
    del trained
    try:
        yield
    finally:
        for _, handle in watched:
            handle.remove()
    refuse_none(parameters)
    if before and not reached and all(_left(*each) for each in before):
        raise RuntimeError(NOT_BACKPROPAGATED)
    kept += [p for p, before in sharded if p.grad is not None and p.grad is before()]
    if kept:
        raise RuntimeError(
            "closure must zero gradients before it backpropagates, but it added to "
            f"those of an earlier pass ({len(kept)} parameters): call zero_grad inside "
            "the closure, or first_step(zero_grad=True); to accumulate gradients over "
            "parts of a batch, backpropagate all parts in one closure (in Lightning "
            "keep accumulate_grad_batches at 1)"
        )


def refuse_none(parameters: Iterable[Tensor]) -> None:
    """Refuse parameters of which none has a gradient."""
    if all(parameter.grad is None for parameter in parameters):
        raise RuntimeError(NOT_BACKPROPAGATED)


def _left(parameter: Tensor, gradient: TensorWeakRef, version: int) -> bool:
    """Return whether a gradient is as it was, or only zeroed in place."""
    there = parameter.grad
    if there is None or there is not gradient():
        return False
    return there._version == version or not there.any()


def refuse_left_out_closures() -> None:
    """Refuse Accelerate's accumulation, whose optimizer leaves out most closures.

    Raises:
        RuntimeError: If an ``Accelerator`` here accumulates gradients over batches.
    """
    state = sys.modules.get("accelerate.state")
    if state is not None and state.GradientState().num_steps > 1:
        raise RuntimeError(
            "gradient_accumulation_steps of Accelerate must be 1, got "
            f"{state.GradientState().num_steps}: its optimizer calls no closure but "
            "that of the last batch; backpropagate all parts of a batch in one closure"
        )
