"""What a scoring says where layers do not show the gradients of all parameters."""

from collections.abc import Mapping

from torch import nn

# Modules named in one sentence.
NAMED = 4


def sentence(
    model: nn.Module,
    reasons: Mapping[str, str],
    *,
    samples: int,
    at_a_time: int,
    elements: int,
    layers_too: bool,
) -> str:
    """Return which parameters are differentiated per sample, why, and at what cost.

    Args:
        model: The model.
        reasons: Why, by the name of the parameter.
        samples: Samples in a batch.
        at_a_time: How many of them a pass differentiates.
        elements: Elements of one sample's gradient of all such parameters.
        layers_too: Whether other parameters are left, which layers do show.

    Returns:
        One sentence.

    Example:
        >>> model, reasons = nn.Sequential(nn.LSTM(1, 1)), {"0.bias_ih_l0": "has no rule"}
        >>> counts = {"samples": 128, "at_a_time": 1, "elements": 4}
        >>> print(sentence(model, reasons, layers_too=True, **counts))
        0 (LSTM) has no rule: the Fisher trace of Sequential takes 129 forward and backward passes for a batch of 128 where layers alone take 1, as the gradient of 4 parameters is formed for every sample, 1 at a time; the values are as exact
    """  # noqa: E501
    passes = -(-samples // at_a_time) + layers_too
    together = min(at_a_time, samples)
    return (
        f"{_listed(model, reasons)}: the Fisher trace of {type(model).__name__} takes "
        f"{passes:,} forward and backward passes for a batch of {samples:,} where "
        "layers alone take 1, as the gradient of "
        f"{elements:,} parameters is formed for every sample, {together:,} at a time"
        "; the values are as exact"
    )


def _listed(model: nn.Module, reasons: Mapping[str, str]) -> str:
    """Return the modules that parameters belong to, each with its reason."""
    by_owner: dict[str, str] = {}
    for name, reason in reasons.items():
        owner, _, leaf = name.rpartition(".")
        kind = type(model.get_submodule(owner)).__name__
        label = f"{owner or 'the model'} ({kind})"
        if not owner and any(True for _ in model.children()):
            label = f"{leaf} (of {kind} itself)"
        by_owner.setdefault(label, reason)
    told = [f"{owner} {reason}" for owner, reason in by_owner.items()]
    more = [f"{len(told) - NAMED} more"] if len(told) > NAMED else []
    return ", ".join(told[:NAMED] + more)
