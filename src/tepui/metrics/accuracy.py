"""How often members and ensemble are right."""

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.metrics.chunks import Chunk, Rule, dtype_of
from tepui.metrics.streaming import SampleMean, WithRule


def individual_accuracy(logits: Tensor, labels: Tensor) -> Tensor:
    """Accuracy of each member, ``(1/N) Σ_n 1[argmax f_m(x_n) = y_n]``.

    Higher is better; range [0, 1].

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.

    Returns:
        Accuracies of shape ``(members,)``.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 3.0]]])
        >>> individual_accuracy(logits, torch.tensor([0, 1]))
        tensor([1.0000, 0.5000])
    """
    return IndividualAccuracy().once(logits, labels)


@final
class IndividualAccuracy(SampleMean):
    """Streaming :func:`individual_accuracy`."""

    def per_sample(self, chunk: Chunk) -> Tensor:
        """Return whether each member is right, ``(members, samples)``."""
        return chunk.top[1] == chunk.labels


def accuracy(logits: Tensor, labels: Tensor, *, rule: Rule = "probability") -> Tensor:
    """Accuracy of the ensemble, ``(1/N) Σ_n 1[ensemble prediction of x_n = y_n]``.

    Higher is better; range [0, 1].

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        rule: How members are combined; :func:`ensemble_predictions` says how ties end.

    Returns:
        A scalar.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 3.0]]])
        >>> accuracy(logits, torch.tensor([0, 1]))
        tensor(1.)
    """
    return Accuracy(rule=rule).once(logits, labels)


@final
class Accuracy(WithRule, SampleMean):
    """Streaming :func:`accuracy`, with its ``rule``."""

    def per_sample(self, chunk: Chunk) -> Tensor:
        """Return whether the ensemble is right."""
        return chunk.correct(self.rule)


def corruption_accuracy(accuracies: Mapping[tuple[str, int], float | Tensor]) -> Tensor:
    """Mean over corruption types of the mean accuracy over severities.

    ``(1/|T|) Σ_t (1/|S|) Σ_s accuracy(t, s)``. Higher is better; range and unit are
    those of the accuracies given, fractions or percent.

    Args:
        accuracies: One accuracy for each pair of corruption type and severity; every
            type must come at every severity.

    Returns:
        A scalar.

    Raises:
        ValueError: If there is no accuracy, one is not a scalar, or a cell is missing.

    Example:
        >>> corruption_accuracy({("fog", 1): 0.75, ("fog", 5): 0.25})
        tensor(0.5000)
    """
    require(len(accuracies) > 0, "accuracies", "hold at least one cell", accuracies)
    missing = _missing_cells(accuracies)
    if missing:
        raise ValueError(
            "accuracies must hold every corruption type at every severity, "
            f"got none for {', '.join(map(str, missing))}"
        )
    total = sum(_scalar(cell, value) for cell, value in accuracies.items())
    # In a complete grid the mean of means is the mean over all cells.
    mean = total / len(accuracies)
    return mean if isinstance(mean, Tensor) else torch.tensor(mean)


def _missing_cells(
    accuracies: Mapping[tuple[str, int], float | Tensor],
) -> list[tuple[str, int]]:
    types = sorted({kind for kind, _ in accuracies})
    severities = sorted({severity for _, severity in accuracies})
    grid = [(kind, severity) for kind in types for severity in severities]
    return [cell for cell in grid if cell not in accuracies]


def _scalar(cell: tuple[str, int], value: float | Tensor) -> float | Tensor:
    if not isinstance(value, Tensor):
        return float(value)
    name, shape = f"accuracies[{cell!r}]", tuple(value.shape)
    require(value.ndim == 0, name, "be a scalar, not of a shape", shape)
    return value.detach().to(dtype_of(value))
