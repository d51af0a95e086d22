"""The last linear layer of a model."""

from torch import nn

from tepui.core.checks import require


def classifier_of(model: nn.Module) -> nn.Linear:
    """Return a model's last linear layer.

    Example:
        >>> classifier_of(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
        Linear(in_features=3, out_features=2, bias=True)
    """
    named = getattr(model, "classifier", None)
    inside = named if isinstance(named, nn.Module) else model
    layers = [part for part in inside.modules() if isinstance(part, nn.Linear)]
    require(len(layers) > 0, "model", "have a linear layer", type(model).__name__)
    return layers[-1]
