"""Whether somebody watches a module being called."""

from torch import nn


def hooked(module: nn.Module) -> bool:
    """Return whether calling a module does more than its forward pass."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )
